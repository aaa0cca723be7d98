// What an ordinary UDP socket can do for RoCEv2, and what not.

// Package udp is the sockets of RoCEv2: packets go out with a right ICRC and come in with network
// headers that the ICRC can be checked against, many for one system call. It knows no queue pairs.
//
// The ICRC covers fields of the IP header, so a sender has to know what its kernel puts there, and
// a receiver what the sender's did (roce: packet.ICRC). A UDP socket is not told. It is enough all
// the same:
//
//	sending, IPv4    a socket that is not connected and never fragments (IP_MTU_DISCOVER, DO) sends DF and
//	                 identification 0, always (IBA ICRC plain sockets IPv4 TX [IBU-224])
//	receiving, IPv4  the sender's identification is not delivered, and Linux rxe counts it up. The CRC is linear: of all
//	                 65,536 values at most one makes the ICRC of a packet right, and is computed (ids.go). A damaged packet passes
//	                 for a good one once in 2^16 instead of 2^32 times (IBA ICRC plain sockets IPv4 RX [IBU-225])
//	IPv6             has no identification, all is known; a checksum of zero, as rxe sends it, has to be allowed
//	                 (IBA ICRC plain sockets IPv6 [IBU-226])
//
// What routers change (TOS, TTL, flow label) is outside of the ICRC, and not known here: the
// headers that are made up have 0 and 64 there. The socket is bound to one address, which is under
// the ICRC, too.
package udp
