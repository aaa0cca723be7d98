// Folding with VPCLMULQDQ and AVX-512: see fold_amd64.go for the arithmetic.

//go:build amd64 && !purego

#include "textflag.h"

// FOLD moves vector z by the distance of the keys k and adds the vector or memory m.
#define FOLD(z, k, m, t) \
	VPCLMULQDQ $0x00, k, z, t \
	VPCLMULQDQ $0x11, k, z, z \
	VPTERNLOGQ $0x96, m, t, z

// FIRST32 sets x to the low 32 bits of y.
#define FIRST32(y, x) \
	VMOVD y, R8 \
	VMOVD R8, x

// LANES moves three lanes of Z0 onto the fourth, which the keys of zero leave out of the products, to X5. DI has the keys.
#define LANES \
	VMOVDQU64     32(DI), Z18 \
	VPCLMULQDQ    $0x00, Z18, Z0, Z5 \
	VPCLMULQDQ    $0x11, Z18, Z0, Z6 \
	VPXORQ        Z5, Z6, Z5 \
	VEXTRACTI32X4 $3, Z0, X7 \
	VEXTRACTI64X4 $1, Z5, Y6 \
	VPXOR         Y5, Y6, Y5 \
	VEXTRACTI128  $1, Y5, X6 \
	VPXOR         X5, X6, X5 \
	VPXOR         X5, X7, X5

// BARRETT has the CRC of U, the low half of X5, in R8.
#define BARRETT \
	FIRST32(X5, X6) \
	VPCLMULQDQ $0x00, X15, X6, X6 \
	FIRST32(X6, X6) \
	VPCLMULQDQ $0x10, X15, X6, X6 \
	VPXOR   X6, X5, X5 \
	VMOVQ   X5, R8 \
	SHRQ    $32, R8

// REDUCE has the CRC of X5 in R8: T, then U. X13, X12 and X15 have x^96, x^64, and M and P.
#define REDUCE \
	VPCLMULQDQ $0x10, X13, X5, X6 \
	VPSRLDQ $8, X5, X5 \
	VPXOR   X6, X5, X5 \
	FIRST32(X5, X6) \
	VPCLMULQDQ $0x00, X12, X6, X6 \
	VPSRLDQ $4, X5, X5 \
	VPXOR   X6, X5, X5 \
	BARRETT

// func foldVectors(crc uint32, p *byte, n int, k *foldKeys) uint32
TEXT ·foldVectors(SB), NOSPLIT, $0-36
	MOVL crc+0(FP), AX
	MOVQ p+8(FP), SI
	MOVQ n+16(FP), CX
	MOVQ k+24(FP), DI
	VMOVDQU 112(DI), X15 // M, P
	CMPQ CX, $16
	JB   words
	VMOVDQU 64(DI), X13 // the keys of 128 bits, of which the upper is x^96 as well
	VMOVQ   96(DI), X12 // x^64

	// The CRC so far is added to the first bytes.
	VMOVD AX, X4
	CMPQ  CX, $64
	JAE   vectors
	VPXOR (SI), X4, X5
	ADDQ  $16, SI
	SUBQ  $16, CX
	JMP   quads

vectors:
	VPXORQ (SI), Z4, Z0
	ADDQ   $64, SI
	SUBQ   $64, CX
	VBROADCASTI32X4 16(DI), Z17
	CMPQ CX, $192
	JB   last

	VMOVDQU64 (SI), Z1
	VMOVDQU64 64(SI), Z2
	VMOVDQU64 128(SI), Z3
	ADDQ $192, SI
	SUBQ $192, CX
	VBROADCASTI32X4 (DI), Z16
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

last:
	CMPQ CX, $64
	JB   lanes
	FOLD(Z0, Z17, (SI), Z5)
	ADDQ $64, SI
	SUBQ $64, CX
	JMP  last

lanes:
	LANES

quads:
	CMPQ CX, $16
	JB   eight
	VPCLMULQDQ $0x00, X13, X5, X6
	VPCLMULQDQ $0x11, X13, X5, X5
	VPXOR X6, X5, X5
	VPXOR (SI), X5, X5
	ADDQ $16, SI
	SUBQ $16, CX
	JMP  quads

eight:
	CMPQ CX, $8
	JB   four
	VPCLMULQDQ $0x10, X13, X5, X6
	VPSRLDQ $8, X5, X5
	VMOVQ   (SI), X7
	VPSLLDQ $8, X7, X7
	VPXOR   X6, X5, X5
	VPXOR   X7, X5, X5
	ADDQ $8, SI
	SUBQ $8, CX

four:
	TESTQ CX, CX
	JZ    reduce
	FIRST32(X5, X6)
	VPCLMULQDQ $0x00, X12, X6, X6
	VPSRLDQ $4, X5, X5
	VMOVD   (SI), X7
	VPSLLDQ $12, X7, X7
	VPXOR   X6, X5, X5
	VPXOR   X7, X5, X5

reduce:
	REDUCE
	VZEROUPPER
	MOVL    R8, ret+32(FP)
	RET

words:
	XORL  (SI), AX
	VMOVD AX, X6
	VPCLMULQDQ $0x00, X15, X6, X6
	FIRST32(X6, X6)
	VPCLMULQDQ $0x10, X15, X6, X6
	VMOVQ X6, R8
	SHRQ  $32, R8
	MOVL  R8, AX
	ADDQ  $4, SI
	SUBQ  $4, CX
	JNZ   words
	VZEROUPPER
	MOVL AX, ret+32(FP)
	RET

// func copyVectors(crc uint32, dst, src *byte, n int, k *foldKeys) uint32
TEXT ·copyVectors(SB), NOSPLIT, $0-44
	MOVL crc+0(FP), AX
	MOVQ dst+8(FP), BX
	MOVQ src+16(FP), SI
	MOVQ n+24(FP), CX
	MOVQ k+32(FP), DI
	VMOVDQU 112(DI), X15
	VMOVDQU 64(DI), X13
	VMOVQ   96(DI), X12
	VBROADCASTI32X4 (DI), Z16
	VBROADCASTI32X4 16(DI), Z17

	VMOVD     AX, X4
	VMOVDQU64 (SI), Z0
	VMOVDQU64 64(SI), Z1
	VMOVDQU64 128(SI), Z2
	VMOVDQU64 192(SI), Z3
	VMOVDQU64 Z0, (BX)
	VMOVDQU64 Z1, 64(BX)
	VMOVDQU64 Z2, 128(BX)
	VMOVDQU64 Z3, 192(BX)
	VPXORQ    Z4, Z0, Z0
	JMP       next

round:
	// What is stored is what is folded, whatever happens to the source meanwhile: it is read once.
	VMOVDQU64 (SI), Z8
	VMOVDQU64 64(SI), Z9
	VMOVDQU64 128(SI), Z10
	VMOVDQU64 192(SI), Z11
	VMOVDQU64 Z8, (BX)
	VMOVDQU64 Z9, 64(BX)
	VMOVDQU64 Z10, 128(BX)
	VMOVDQU64 Z11, 192(BX)
	FOLD(Z0, Z16, Z8, Z5)
	FOLD(Z1, Z16, Z9, Z6)
	FOLD(Z2, Z16, Z10, Z7)
	FOLD(Z3, Z16, Z11, Z14)

next:
	ADDQ $256, SI
	ADDQ $256, BX
	SUBQ $256, CX
	JNZ  round

	FOLD(Z0, Z17, Z1, Z5)
	FOLD(Z0, Z17, Z2, Z5)
	FOLD(Z0, Z17, Z3, Z5)
	LANES
	REDUCE
	VZEROUPPER
	MOVL R8, ret+40(FP)
	RET

// func multiply(crc uint32, by uint64, k *foldKeys) uint32
TEXT ·multiply(SB), NOSPLIT, $0-28
	MOVL    crc+0(FP), AX
	MOVQ    k+16(FP), DI
	VMOVDQU 112(DI), X15
	VMOVD   AX, X5
	VMOVQ   by+8(FP), X6
	VPCLMULQDQ $0x00, X6, X5, X5
	BARRETT
	MOVL    R8, ret+24(FP)
	RET
