/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/bench_plot.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <spawn.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tools/bench_settings.h"

#define LABELS_MAX 11

/* In gnuplot's single quotes nothing is special but the quote itself, which is doubled. */
static void put_quoted(FILE *out, const char *text)
{
	putc('\'', out);
	for (const char *c = text; *c != '\0'; c++) {
		if (*c == '\'')
			putc('\'', out);
		putc(*c == '\n' ? ' ' : *c, out);
	}
	putc('\'', out);
}

static void put_setting(FILE *out, const char *name, const char *text)
{
	fprintf(out, "set %s ", name);
	put_quoted(out, text);
	fputs(" noenhanced\n", out);
}

/* Labels along the x axis: of all points, or of every second and so on. */
static void put_sizes(const struct bench_plot_curve *curve, FILE *out)
{
	size_t step = (curve->count + LABELS_MAX - 1) / LABELS_MAX;
	char text[BENCH_SIZE_TEXT];

	fputs("set xtics (", out);
	for (size_t i = 0; i < curve->count; i += step)
		fprintf(out, "%s'%s' %.9g", i > 0 ? ", " : "",
			bench_size_text((uint64_t)curve->points[i].x, text), curve->points[i].x);
	fputs(")\n", out);
}

/* Where all points are in one place gnuplot would make an empty range, and complain. */
static void put_range(const char *axis, double least, double most, FILE *out)
{
	if (least == most)
		fprintf(out, "set %srange [%.9g:%.9g]\n", axis, least / 2, most * 2);
}

static void put_ranges(const struct bench_plot *plot, FILE *out)
{
	const struct bench_plot_curve *first = &plot->curves[0];
	double least = INFINITY, most = -INFINITY;

	put_range("x", first->points[0].x, first->points[first->count - 1].x, out);
	for (size_t i = 0; i < plot->curve_count; i++) {
		const struct bench_plot_curve *curve = &plot->curves[i];

		for (size_t k = 0; k < curve->count && curve->on_second_axis; k++) {
			least = fmin(least, curve->points[k].low);
			most = fmax(most, curve->points[k].high);
		}
	}
	put_range("y2", least, most, out);
}

static void put_axes(const struct bench_plot *plot, FILE *out)
{
	fputs("set logscale x 2\nset xlabel 'message size'\n"
	      "set grid\nset key left top noenhanced\n",
	      out);
	put_sizes(&plot->curves[0], out);
	put_ranges(plot, out);
	put_setting(out, "ylabel", plot->y_label);
	if (plot->is_logarithmic)
		fputs("set logscale y 10\n", out);
	else
		fputs("set yrange [0:*]\n", out);
	if (plot->y2_label == NULL)
		return;
	put_setting(out, "y2label", plot->y2_label);
	fputs("set ytics nomirror\nset y2tics\nset logscale y2 10\n", out);
}

void bench_plot_script(const struct bench_plot *plot, FILE *out)
{
	size_t length = strlen(plot->path);
	bool is_svg = length > 4 && strcmp(plot->path + length - 4, ".svg") == 0;

	fprintf(out, "set terminal %s\n",
		is_svg ? "svg size 900,600 background '#ffffff'" : "pngcairo size 900,600");
	fputs("set output ", out);
	put_quoted(out, plot->path);
	putc('\n', out);
	put_setting(out, "title", plot->title);
	put_axes(plot, out);
	for (size_t i = 0; i < plot->curve_count; i++) {
		const struct bench_plot_curve *curve = &plot->curves[i];

		fprintf(out, "$curve%zu << END\n", i);
		for (size_t k = 0; k < curve->count; k++)
			fprintf(out, "%.9g %.9g %.9g %.9g\n", curve->points[k].x,
				curve->points[k].y, curve->points[k].low, curve->points[k].high);
		fputs("END\n", out);
	}
	fputs("plot ", out);
	for (size_t i = 0; i < plot->curve_count; i++) {
		fprintf(out, "%s$curve%zu using 1:2:3:4 axes x1y%d with yerrorlines title ",
			i > 0 ? ", " : "", i, plot->curves[i].on_second_axis ? 2 : 1);
		put_quoted(out, plot->curves[i].name);
	}
	putc('\n', out);
}

/* Where a link leads that leads to no file yet, an empty one stays behind if nothing gets drawn. A
 * reader of a FIFO would take a look as the end of all. */
static int check_path(const char *path, struct rmem_error *error)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
	bool is_new = fd >= 0;
	struct stat status;

	if (fd < 0 && errno == EEXIST) {
		if (stat(path, &status) == 0 && S_ISFIFO(status.st_mode))
			return 0;
		fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
	}
	if (fd < 0)
		return rmem_fail(error, errno, "--plot: can't write %s: %s", path, strerror(errno));
	close(fd);
	if (is_new)
		unlink(path); /* until there is something to draw */
	return 0;
}

int bench_plot_check(const char *path, struct rmem_error *error)
{
	extern char **environ;
	char program[] = "gnuplot", version[] = "--version";
	char *const arguments[] = {program, version, NULL};
	posix_spawn_file_actions_t actions;
	int status = -1;
	pid_t pid;
	int rc = posix_spawn_file_actions_init(&actions);

	if (rc != 0)
		return rmem_fail(error, rc, "--plot: %s", strerror(rc));
	rc = posix_spawn_file_actions_addopen(&actions, 1, "/dev/null", O_WRONLY, 0);
	if (rc == 0)
		rc = posix_spawnp(&pid, program, &actions, NULL, arguments, environ);
	posix_spawn_file_actions_destroy(&actions);
	if (rc == 0 && (waitpid(pid, &status, 0) != pid || status != 0))
		rc = ENOENT;
	if (rc == 0)
		return check_path(path, error);
	return rmem_fail(error, rc,
			 "--plot needs gnuplot, which can't be run here: install it (Debian: "
			 "gnuplot-nox), or take --json and draw it elsewhere");
}

int bench_plot_draw(const struct bench_plot *plot, struct rmem_error *error)
{
	FILE *gnuplot = popen("gnuplot", "we");

	if (gnuplot == NULL)
		return rmem_fail(error, errno, "gnuplot: %s", strerror(errno));
	bench_plot_script(plot, gnuplot);
	if (pclose(gnuplot) != 0)
		return rmem_fail(error, EIO, "%s: gnuplot failed to draw it", plot->path);
	return 0;
}
