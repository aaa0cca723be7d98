// Folding with VPCLMULQDQ and AVX-512: see fold_amd64.go for the arithmetic.

//go:build amd64 && !purego

#include "textflag.h"

// FOLD moves vector z by the distance of the keys k and adds the vector or memory m.
#define FOLD(z, k, m, t) \
	VPCLMULQDQ $0x00, k, z, t \
	VPCLMULQDQ $0x11, k, z, z \
	VPTERNLOGQ $0x96, m, t, z

// func foldVectors(crc uint32, p *byte, n int, k *foldKeys) uint32
TEXT ·foldVectors(SB), NOSPLIT, $0-36
	MOVL crc+0(FP), AX
	MOVQ p+8(FP), SI
	MOVQ n+16(FP), CX
	MOVQ k+24(FP), DI

	// The CRC so far is added to the first bytes.
	VMOVD      AX, X4
	VMOVDQU64  (SI), Z0
	VPXORQ     Z4, Z0, Z0
	VMOVDQU64  64(SI), Z1
	VMOVDQU64  128(SI), Z2
	VMOVDQU64  192(SI), Z3
	ADDQ       $256, SI
	SUBQ       $256, CX
	VBROADCASTI32X4 (DI), Z16
	VBROADCASTI32X4 16(DI), Z17

	CMPQ CX, $256
	JB   near

far:
	FOLD(Z0, Z16, (SI), Z5)
	FOLD(Z1, Z16, 64(SI), Z6)
	FOLD(Z2, Z16, 128(SI), Z7)
	FOLD(Z3, Z16, 192(SI), Z8)
	ADDQ $256, SI
	SUBQ $256, CX
	CMPQ CX, $256
	JAE  far

near:
	// Four vectors to one, and what is left in whole vectors.
	FOLD(Z0, Z17, Z1, Z5)
	FOLD(Z0, Z17, Z2, Z5)
	FOLD(Z0, Z17, Z3, Z5)
	CMPQ CX, $64
	JB   lanes

one:
	FOLD(Z0, Z17, (SI), Z5)
	ADDQ $64, SI
	SUBQ $64, CX
	CMPQ CX, $64
	JAE  one

lanes:
	// Three lanes onto the fourth, which the keys of zero leave out of the products.
	VMOVDQU64     32(DI), Z18
	VPCLMULQDQ    $0x00, Z18, Z0, Z5
	VPCLMULQDQ    $0x11, Z18, Z0, Z6
	VPXORQ        Z5, Z6, Z5
	VEXTRACTI32X4 $3, Z0, X7
	VEXTRACTI64X4 $1, Z5, Y6
	VPXOR         Y5, Y6, Y5
	VEXTRACTI128  $1, Y5, X6
	VPXOR         X5, X6, X5
	VPXOR         X5, X7, X5

	// 128 bits to 32.
	VMOVQ   X5, R8
	VPEXTRQ $1, X5, R9
	XORL    AX, AX
	CRC32Q  R8, AX
	CRC32Q  R9, AX
	VZEROUPPER

eights:
	CMPQ   CX, $8
	JB     bytes
	CRC32Q (SI), AX
	ADDQ   $8, SI
	SUBQ   $8, CX
	JMP    eights

bytes:
	TESTQ  CX, CX
	JZ     done
	CRC32B (SI), AX
	INCQ   SI
	DECQ   CX
	JMP    bytes

done:
	MOVL AX, ret+32(FP)
	RET
