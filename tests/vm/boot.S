/* SPDX-License-Identifier: Apache-2.0 */
/* The emulated machine's only ROM, 64 KiB below 4 GiB and again below 1 MiB: into protected mode,
 * and on to the kernel's entry for virtual machines (PVH), which wants flat segments, no paging and
 * EBX at a struct hvm_start_info. The symbols start_info, image_end and entry are given at assembly.
 *
 * Bochs 2.7 reads an image of RAM into the front of its own buffer, but hands that buffer out to
 * guest addresses in blocks of 128 KiB in the order of their first use. So each block of the image is
 * touched here, in order, before anything else uses memory. */
	.set	block_bytes, 0x20000
	.set	code_selector, 8
	.set	data_selector, 16

	.code16
rom:
	.org	0xff00
start:
	cli
	lgdtl	%cs:(gdt_register - rom)
	mov	$1, %eax
	mov	%eax, %cr0
	ljmpl	$code_selector, $protected

	.code32
protected:
	mov	$data_selector, %eax
	mov	%eax, %ds
	mov	%eax, %es
	mov	%eax, %ss
	mov	%eax, %fs
	mov	%eax, %gs
	mov	$start_info, %ebx
	mov	%ebx, %esi
touch:
	mov	(%esi), %eax
	add	$block_bytes, %esi
	cmp	$image_end, %esi
	jb	touch
	mov	$entry, %eax
	jmp	*%eax

	.balign	8
gdt:
	.quad	0
	.quad	0x00cf9b000000ffff	/* code: all 4 GiB */
	.quad	0x00cf93000000ffff	/* data */
gdt_register:
	.word	gdt_register - gdt - 1
	.long	gdt

	.code16
	.org	0xfff0			/* where the processor begins */
	jmp	start
	.org	0x10000
