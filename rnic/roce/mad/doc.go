// Package mad is the management datagrams of InfiniBand that RoCE uses to make and
// end connections (IBA volume 1: chapter 13 for the header, chapter 12 for
// communication management, annex A11 for addressing by IP): bytes to values and
// back. Sockets, timers, connection states and their answers are its caller's.
//
// A datagram is the whole payload of a UD SEND Only to queue pair 1, Q_Key
// 0x80010000, and has 256 bytes whatever is in it:
//
//	IP │ UDP 8 │ BTH 12 │ DETH 8 │ header 24 │ data 232            │ ICRC 4
//	                               Header      REQ, REP, RTU, …
//
// Parse takes the 256 bytes apart and is the only function that checks a length: the
// 232 bytes of data come out of it as an array, so the parsers of the messages index
// an array of known size and cannot read past it.
//
// # Who sends what
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
// Private data is a fixed part of each message, with no length of its own on the wire;
// what its sender does not use is zero. It is an array of that size here, so its bounds
// are those of the type: MRA 222, REQ 92, REP 196, REJ 148 beside 72 of additional
// information, RTU and DREP 224, DREQ 220, APR 148 beside 72, SIDR_REQ 216, SIDR_REP 136
// beside 72. Messages are therefore values: they compare with ==, keep no reference to
// the bytes they were read from, and neither direction allocates.
//
// # Conventions
//
// Offsets in the layout tables count from the first byte of the 232, as the tables of
// IBA chapter 12 do; bits are written as masks of their byte. Reserved bits are sent as
// zero and not looked at. A value wider than its field loses its upper bits.
//
// # Sources
//
// Tables 106 to 120 of IBA volume 1, chapter 12. The place of each field was checked
// against Linux include/rdma/ibta_vol1_c12.h, and against Wireshark's dissector for the
// messages that it has: REQ with its IP CM header, REP, RTU, REJ, DREQ and DREP.
package mad
