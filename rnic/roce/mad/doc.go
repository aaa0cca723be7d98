// Package mad encodes and decodes the InfiniBand management datagrams that RoCE uses to open and
// close connections (IBA volume 1: chapter 13 for the header, chapter 12 for communication
// management, annex A11 for addressing by IP). Its caller provides sockets, timers and connection
// states.
//
// A datagram is the whole payload of a UD SEND Only to queue pair 1 with Q_Key 0x80010000, and
// always has 256 bytes:
//
//	IP │ UDP 8 │ BTH 12 │ DETH 8 │ header 24 │ data 232            │ ICRC 4
//	                               Header      REQ, REP, RTU, …
//
// Parse splits the 256 bytes. Only Parse checks a length: it returns the 232 data bytes as an
// array, so the message parsers index an array of known size and cannot read past its end.
//
// # Message flow
//
//	active side                         passive side
//	    REQ ──────────────────────────►               QPN, PSN, limits, paths, IP CM header
//	        ◄────────────────────────── MRA           only when the answer takes long
//	        ◄────────────────────────── REP or REJ    its QPN, PSN, limits; or why not
//	    RTU ──────────────────────────►               data may flow
//	   DREQ ◄─────────────────────────► DREP          either side ends it
//	    LAP ──────────────────────────► APR           alternate paths: refused here
//	SIDR_REQ ─────────────────────────► SIDR_REP      UD: which QPN and Q_Key has the service
//
// Private data is a fixed part of each message, without a length on the wire; unused bytes are
// zero. It is an array of that size here, so the type has its bounds: MRA 222, REQ 92, REP 196,
// REJ 148 plus 72 bytes of additional information, RTU and DREP 224, DREQ 220, APR 148 plus 72,
// SIDR_REQ 216, SIDR_REP 136 plus 72. Messages are therefore values: == compares them, they keep
// no reference to the parsed bytes, and neither direction allocates.
//
// # Conventions
//
// Offsets in the layout tables count from the start of the 232 bytes, like the tables in IBA
// chapter 12; bits are masks of their byte. Reserved bits are sent as zero and ignored on
// receipt. A value wider than its field loses its upper bits.
//
// # Sources
//
// Tables 106 to 120 of IBA volume 1, chapter 12. Each field's position was checked against Linux
// include/rdma/ibta_vol1_c12.h, and against Wireshark's dissector as far as it goes: REQ with its
// IP CM header, REP, RTU, REJ, DREQ and DREP.
package mad
