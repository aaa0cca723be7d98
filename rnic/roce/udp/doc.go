// Overview: RoCEv2 over ordinary UDP sockets, and its limits.

// Package udp provides RoCEv2's sockets: it sends packets with a valid ICRC, and receives them
// with network headers for the ICRC check, many in one system call. It does not know queue pairs.
//
// The ICRC covers fields in the IP header. So a sender must know its kernel's values for them,
// and a receiver the sender's (roce: packet.ICRC). A UDP socket does not report them, but they
// can be determined:
//
//	sending, IPv4    an unconnected socket that never fragments (IP_MTU_DISCOVER, DO) always sends
//	                 DF and identification 0 (IBA ICRC plain sockets IPv4 TX [IBU-224])
//	receiving, IPv4  the kernel does not deliver the sender's identification, and Linux rxe counts
//	                 it up. The CRC is linear: at most one of the 65,536 values makes the ICRC
//	                 valid, and ids.go computes it. A damaged packet passes with probability
//	                 2^-16 instead of 2^-32 (IBA ICRC plain sockets IPv4 RX [IBU-225])
//	IPv6             there is no identification, and all fields are known; the socket must accept
//	                 rxe's zero checksum (IBA ICRC plain sockets IPv6 [IBU-226])
//
// The ICRC does not cover fields that routers change (TOS, TTL, flow label), and they are unknown
// here: reconstructed headers have 0 and 64. The socket is bound to one address, because the ICRC
// covers that, too.
package udp
