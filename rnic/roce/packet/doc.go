// Package packet encodes and decodes RoCEv2's packets (IBA volume 1, chapters 7 to 9, and its
// Annex A17), describes the opcodes, and computes the invariant CRC. It has no state and no I/O;
// sequence numbers, queues and retries belong to the services above it.
//
// A packet is a UDP datagram to port 4791. There is no LRH and no VCRC (IBA wire RoCEv2 [IBU-187]):
//
//	IPv4 20 or IPv6 40 | UDP 8 | BTH 12 | extended headers | payload | pad 0-3 | ICRC 4
//
// The opcode determines the extended headers (Opcode.Carries), which always have this order.
// Numbers are big-endian, except the little-endian ICRC.
//
//	BTH (9.2)                          DETH (9.3)                    RETH (9.3)
//	off  size  field                   off  size  field              off  size  field
//	  0     1  OpCode                    0     4  Q_Key                0     8  virtual address
//	  1     1  SE 0x80 M 0x40            4     1  reserved             8     4  R_Key
//	           Pad 0x30 TVer 0x0f        5     3  source QP           12     4  DMA length
//	  2     2  P_Key
//	  4     1  FECN 0x80 BECN 0x40     AtomicETH (9.3)               AETH (9.3)
//	           reserved 0x3f           off  size  field              off  size  field
//	  5     3  destination QP            0     8  virtual address      0     1  syndrome
//	  8     1  A 0x80, reserved 0x7f     8     4  R_Key                1     3  MSN
//	  9     3  PSN                      12     8  swap or add
//	                                    20     8  compare
//
//	AtomicAckETH (9.3)                 ImmDt (9.3)                   IETH (9.3)
//	off  size  field                   off  size  field              off  size  field
//	  0     8  original                  0     4  data                 0     4  R_Key
//
// Reserved bits are sent as zero and ignored on receipt (IBA 9.6 [IBU-185]).
//
// A sender writes the network headers, as they will be on the wire, and a Header into its own
// buffer. It runs an ICRC over them and over the payload in place, and sends all pieces in one
// gather operation. A receiver validates the ICRC, then calls Parse.
package packet
