// Overview: the two ways to encode XDR, and their uses.

// Package xdr encodes and decodes XDR (RFC 4506). Use it for your own RPC programs' arguments and
// results; the packages below it have the types for NFS and related protocols.
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
// The Encoder and the Decoder work on byte slices, value by value, without reflection or
// allocation, for the data path. Large opaques can stay outside the stream as Items, so that they
// are never copied. Marshal and Unmarshal work on whole types by reflection (go-xdr), within
// limits, for rare messages.
//
// No input can make a Decoder panic, read beyond its slice, or allocate more than a small
// multiple of the available bytes.
//
// Until version 1 a release can change these names. CHANGELOG.md lists each change.
package xdr
