// Overview: the message types' conventions.

// Package nfs3 has the message types for NFS version 3 (RFC 1813) and their XDR codec, for client
// and server, and the protocol's binding to RPC-over-RDMA (RFC 8267).
//
// Names are the RFC's without the 3. Each procedure Xxx has XxxArgs and XxxRes (or shares one
// with a similar procedure), with both EncodeXDR and DecodeXDR. A result has the fields of both
// arms. If Status is not OK it carries only the error arm's attributes, and decoding leaves the
// other fields zero.
//
// Byte slices in decoded values (names, paths, data) alias the message or its detached items:
// they are valid as long as the message is.
package nfs3
