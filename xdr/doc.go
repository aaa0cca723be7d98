// What the package is: the two ways to code XDR, and which is for what.

// Package xdr encodes and decodes XDR (RFC 4506). Use it for the arguments and results of an
// RPC program of your own; the packages below it have the types of NFS and its relatives.
//
//	var e xdr.Encoder
//	(&user{7, "ada"}).EncodeXDR(&e)
//
//	var u user
//	d := xdr.NewDecoder(e.Bytes())
//	u.DecodeXDR(d)
//	if err := d.Err(); err != nil {
//		log.Fatal(err)
//	}
//
// The Encoder and the Decoder work on byte slices, value by value, without
// reflection and without allocation: they are for the data path. Large opaques
// can be kept apart from the stream as Items, so that they are never copied.
// Marshal and Unmarshal work on whole types by reflection (go-xdr), within
// limits: they are for messages that are met seldom.
//
// Nothing a Decoder reads can make it panic, read beyond its slice, or allocate
// more than a small multiple of the bytes at hand.
//
// Until version 1 a release can change these names. CHANGELOG.md lists each change.
package xdr
