// What the package is, and how its types behave.

// Package nfs3 holds the message types of NFS version 3 (RFC 1813) and their
// XDR codec, for client and server alike, and the binding of the protocol to
// RPC-over-RDMA (RFC 8267).
//
// Names are those of the RFC without the 3. Each procedure Xxx has XxxArgs and
// XxxRes (or shares one with a like procedure), with both EncodeXDR and
// DecodeXDR. A result carries the fields of both its arms; when Status is not
// OK only the attributes of the error arm travel, and decoding leaves the other
// fields zero.
//
// Byte slices of decoded values (names, paths, data) are parts of the message
// or of its detached items, not copies: they hold as long as the message does.
package nfs3
