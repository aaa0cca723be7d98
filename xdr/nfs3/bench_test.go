// The codec's cost for a GETATTR and a READ result.

package nfs3

import (
	"testing"

	"github.com/nfsrdma/nfsrdma/xdr"
)

func benchmarkCodec(b *testing.B, m, back message) {
	var e xdr.Encoder
	var d xdr.Decoder
	buf := make([]byte, 0, 1024)
	b.ReportAllocs()
	for b.Loop() {
		e.Reset(buf)
		m.EncodeXDR(&e)
		d.Reset(e.Bytes(), e.Items())
		back.DecodeXDR(&d)
	}
	if d.Err() != nil {
		b.Fatal(d.Err())
	}
}

func BenchmarkGetattrRes(b *testing.B) {
	benchmarkCodec(b, &GetattrRes{Attr: Fattr{Type: TypeReg}}, &GetattrRes{})
}

func BenchmarkReadRes(b *testing.B) {
	attr := PostOpAttr{Present: true, Attr: Fattr{Type: TypeReg}}
	benchmarkCodec(b, &ReadRes{Attr: attr, Count: 8192, Data: make([]byte, 8192)}, &ReadRes{})
}
