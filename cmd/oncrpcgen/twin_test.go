// Generated NFSv3 compared with package xdr/nfs3: the same bytes in both directions, and their
// speed.

package main

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/nfsrdma/nfsrdma/cmd/oncrpcgen/internal/check"
	"github.com/nfsrdma/nfsrdma/cmd/oncrpcgen/internal/sample"
	"github.com/nfsrdma/nfsrdma/cmd/oncrpcgen/testdata/nfs3"
	"github.com/nfsrdma/nfsrdma/xdr"
	hand "github.com/nfsrdma/nfsrdma/xdr/nfs3"
)

// twins has, for each generated type, the type written by hand.
var twins = map[string]func() message{
	"GETATTR3args": mk[hand.FHArgs], "GETATTR3res": mk[hand.GetattrRes], "SETATTR3args": mk[hand.SetattrArgs], "SETATTR3res": mk[hand.WccRes],
	"LOOKUP3args": mk[hand.DirOpArgs], "LOOKUP3res": mk[hand.LookupRes], "ACCESS3args": mk[hand.AccessArgs], "ACCESS3res": mk[hand.AccessRes],
	"READLINK3res": mk[hand.ReadlinkRes], "READ3args": mk[hand.ReadArgs], "READ3res": mk[hand.ReadRes], "WRITE3args": mk[hand.WriteArgs],
	"WRITE3res": mk[hand.WriteRes], "CREATE3args": mk[hand.CreateArgs], "CREATE3res": mk[hand.CreateRes], "MKDIR3args": mk[hand.MkdirArgs],
	"SYMLINK3args": mk[hand.SymlinkArgs], "MKNOD3args": mk[hand.MknodArgs], "RENAME3args": mk[hand.RenameArgs], "RENAME3res": mk[hand.RenameRes],
	"LINK3args": mk[hand.LinkArgs], "LINK3res": mk[hand.LinkRes], "READDIR3args": mk[hand.ReaddirArgs], "READDIR3res": mk[hand.ReaddirRes],
	"READDIRPLUS3args": mk[hand.ReaddirplusArgs], "READDIRPLUS3res": mk[hand.ReaddirplusRes], "FSSTAT3res": mk[hand.FsstatRes],
	"FSINFO3res": mk[hand.FsinfoRes], "PATHCONF3res": mk[hand.PathconfRes], "COMMIT3res": mk[hand.CommitRes],
}

// parts returns a message's stream, and its items.
func parts(m xdr.Marshaler) ([]byte, []xdr.Item) {
	e := xdr.NewEncoder(nil)
	m.EncodeXDR(e)
	return e.Bytes(), e.Items()
}

// TestTwin: both types read the same messages, and write the same bytes with the same items.
func TestTwin(t *testing.T) {
	r := rand.New(rand.NewPCG(30, 4))
	types := typesOf(t, nfs3File)
	for name, make := range nfs3Types {
		if twins[name] == nil {
			t.Errorf("%s has no twin", name)
			continue
		}
		for range 300 {
			in := sample.Append(nil, r, types[name])
			generated, byHand := make(), twins[name]()
			generated.DecodeXDR(xdr.NewDecoder(in))
			if res, ok := generated.(*nfs3.READ3res); ok { // package nfs3 checks the count
				res.Resok.Count = uint32(len(res.Resok.Data))
				in = whole(res)
			}
			d := xdr.NewDecoder(in)
			byHand.DecodeXDR(d)
			if name == "MKNOD3args" && errors.Is(d.Err(), xdr.ErrValue) {
				continue // package nfs3 refuses an unknown file type, which the default arm accepts
			}
			if d.Err() != nil || d.Remaining() > 0 {
				t.Fatalf("%s by hand: %v, %d bytes left, of %x", name, d.Err(), d.Remaining(), in)
			}
			gotStream, gotItems := parts(generated)
			wantStream, wantItems := parts(byHand)
			if !bytes.Equal(gotStream, wantStream) || !sameItems(gotItems, wantItems) {
				t.Fatalf("%s: got %x and %d items, want %x and %d", name, gotStream, len(gotItems), wantStream, len(wantItems))
			}
		}
	}
}

func sameItems(a, b []xdr.Item) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i].Off != b[i].Off || !bytes.Equal(a[i].Data, b[i].Data) {
			return false
		}
	}
	return true
}

// TestTwinBindings: the item table and the longest replies agree with RFC 8267's binding as written
// by hand.
func TestTwinBindings(t *testing.T) {
	for _, p := range model(t, nfs3File, check.Options{Bytes: true}).Programs {
		for _, q := range p.Procs {
			b := &hand.Bindings[q.Number]
			if q.ArgItem() != b.ArgItem || (q.ResItem() > 0) != b.ResItem {
				t.Errorf("%s: got items %v, %v, want %v, %v", q.X, q.ArgItem(), q.ResItem() > 0, b.ArgItem, b.ResItem)
			}
			if b.Grows == hand.GrowsCount && !b.ResItem || b.Grows == hand.GrowsMaxcount {
				continue // the length of a listing depends on the arguments
			}
			if q.MaxReply != uint64(b.MaxReply) {
				t.Errorf("%s: got a longest reply of %d bytes, want %d", q.X, q.MaxReply, b.MaxReply)
			}
		}
	}
}

// benchMessages returns messages in their usual form.
func benchMessages() map[string][]byte {
	attr := hand.PostOpAttr{Present: true, Attr: hand.Fattr{Type: hand.TypeReg, Mode: 0o644, Size: 8192}}
	fh, _ := hand.MakeFH(bytes.Repeat([]byte{7}, 28))
	list := &hand.ReaddirplusRes{DirAttr: attr, EOF: true}
	for i := range 100 {
		name := binary.BigEndian.AppendUint64([]byte("file"), uint64(i))
		list.Entries = append(list.Entries, hand.EntryPlus{Fileid: uint64(i), Name: name, Cookie: uint64(i), Attr: attr, FH: hand.PostOpFH{Present: true, FH: fh}})
	}
	return map[string][]byte{
		"GETATTR3res":     whole(&hand.GetattrRes{Attr: attr.Attr}),
		"LOOKUP3args":     whole(&hand.DirOpArgs{Dir: fh, Name: []byte("a name")}),
		"LOOKUP3res":      whole(&hand.LookupRes{FH: fh, Attr: attr, DirAttr: attr}),
		"READ3args":       whole(&hand.ReadArgs{FH: fh, Count: 8192}),
		"READ3res":        whole(&hand.ReadRes{Attr: attr, Count: 8192, Data: make([]byte, 8192)}),
		"WRITE3args":      whole(&hand.WriteArgs{FH: fh, Count: 8192, Data: make([]byte, 8192)}),
		"WRITE3res":       whole(&hand.WriteRes{Wcc: hand.WccData{Before: hand.PreOpAttr{Present: true}, After: attr}}),
		"CREATE3res":      whole(&hand.CreateRes{}),
		"READDIRPLUS3res": whole(list),
	}
}

// BenchmarkTwin decodes and encodes a message, with the types by hand and with the generated types.
func BenchmarkTwin(b *testing.B) {
	for name, in := range benchMessages() {
		for kind, make := range map[string]func() message{"hand": twins[name], "generated": nfs3Types[name]} {
			b.Run(name+"/"+kind, func(b *testing.B) {
				b.ReportAllocs()
				m := make()
				var e xdr.Encoder
				var d xdr.Decoder
				var buf [32 << 10]byte
				for b.Loop() {
					d.Reset(in, nil)
					m.DecodeXDR(&d)
					e.Reset(buf[:0])
					m.EncodeXDR(&e)
				}
				if d.Err() != nil {
					b.Fatal(d.Err())
				}
			})
		}
	}
}

// TestTwinAllocates: generated types allocate no more than the types by hand.
func TestTwinAllocates(t *testing.T) {
	for name, in := range benchMessages() {
		allocations := func(m message) float64 {
			var e xdr.Encoder
			var d xdr.Decoder
			buf := append([]byte(nil), in...)
			return testing.AllocsPerRun(100, func() {
				d.Reset(in, nil)
				m.DecodeXDR(&d)
				e.Reset(buf)
				m.EncodeXDR(&e)
			})
		}
		if got, want := allocations(nfs3Types[name]()), allocations(twins[name]()); got > want {
			t.Errorf("%s: got %v allocations, want at most %v", name, got, want)
		}
	}
}
