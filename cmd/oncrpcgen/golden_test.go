// The generated packages in testdata are up to date, and agree with random messages of their types.

package main

import (
	"bytes"
	"flag"
	"math/rand/v2"
	"os"
	"reflect"
	"testing"

	"github.com/nfsrdma/nfsrdma/cmd/oncrpcgen/internal/check"
	"github.com/nfsrdma/nfsrdma/cmd/oncrpcgen/internal/sample"
	"github.com/nfsrdma/nfsrdma/cmd/oncrpcgen/internal/syntax"
	"github.com/nfsrdma/nfsrdma/cmd/oncrpcgen/testdata/all"
	"github.com/nfsrdma/nfsrdma/cmd/oncrpcgen/testdata/nfs3"
	"github.com/nfsrdma/nfsrdma/test/must"
	"github.com/nfsrdma/nfsrdma/xdr"
)

var update = flag.Bool("update", false, "write the generated packages again")

const (
	allFile  = "testdata/all/all.x"
	nfs3File = "testdata/nfs3/nfs3.x"
)

// golden has the command lines that generate the packages.
var golden = [][]string{
	{"-package", "all", allFile}, {"-package", "nfs3", "-bytes", nfs3File}, {"-package", "peer", peerFile},
	{"-package", "main", "../../test/examples/rpcgen/store.x"},
	{"-package", "main", "../../test/examples/vxi11/core.x"}, {"-package", "main", "../../test/examples/vxi11/channels.x"},
}

// TestGolden: the packages in testdata equal the generator's output.
func TestGolden(t *testing.T) {
	for _, args := range golden {
		c, err := parseCommand(args)
		must.Succeed(t, err)
		got, err := c.generate()
		must.Succeed(t, err)
		if *update {
			must.Succeed(t, os.WriteFile(c.out, got, 0o666))
		}
		want, err := os.ReadFile(c.out)
		must.Succeed(t, err)
		if !bytes.Equal(got, want) {
			t.Errorf("%s is out of date: go test ./cmd/oncrpcgen -run TestGolden -update", c.out)
		}
	}
}

// A message is a generated type.
type message interface {
	xdr.Marshaler
	xdr.Unmarshaler
}

func mk[T any]() message { return any(new(T)).(message) }

// allTypes has the types in testdata/all, under their names in the file.
var allTypes = map[string]func() message{
	"token": mk[all.Token], "key": mk[all.Key], "id": mk[all.Id], "pair": mk[all.Pair], "names": mk[all.Names], "words": mk[all.Words],
	"tree": mk[all.Tree], "color": mk[all.Color], "bit": mk[all.Bit], "simple": mk[all.Simple], "fixed": mk[all.Fixed], "arrays": mk[all.Arrays],
	"node": mk[all.Node], "chains": mk[all.Chains], "forest": mk[all.Forest], "forest_list": mk[all.ForestList], "options": mk[all.Options],
	"choice": mk[all.Choice], "exact": mk[all.Exact], "exact_point": mk[all.ExactPoint], "flag": mk[all.Flag], "large": mk[all.Large],
	"chain": mk[all.Chain], "chain_element": mk[all.ChainElement], "larges": mk[all.Larges], "upload": mk[all.Upload], "download": mk[all.Download],
	"range": mk[all.Range], "list_args": mk[all.ListArgs], "listing": mk[all.Listing],
}

// nfs3Types has arguments and results of NFSv3, by their names in the file.
var nfs3Types = map[string]func() message{
	"GETATTR3args": mk[nfs3.GETATTR3args], "GETATTR3res": mk[nfs3.GETATTR3res], "SETATTR3args": mk[nfs3.SETATTR3args], "SETATTR3res": mk[nfs3.SETATTR3res],
	"LOOKUP3args": mk[nfs3.LOOKUP3args], "LOOKUP3res": mk[nfs3.LOOKUP3res], "ACCESS3args": mk[nfs3.ACCESS3args], "ACCESS3res": mk[nfs3.ACCESS3res],
	"READLINK3res": mk[nfs3.READLINK3res], "READ3args": mk[nfs3.READ3args], "READ3res": mk[nfs3.READ3res], "WRITE3args": mk[nfs3.WRITE3args],
	"WRITE3res": mk[nfs3.WRITE3res], "CREATE3args": mk[nfs3.CREATE3args], "CREATE3res": mk[nfs3.CREATE3res], "MKDIR3args": mk[nfs3.MKDIR3args],
	"SYMLINK3args": mk[nfs3.SYMLINK3args], "MKNOD3args": mk[nfs3.MKNOD3args], "RENAME3args": mk[nfs3.RENAME3args], "RENAME3res": mk[nfs3.RENAME3res],
	"LINK3args": mk[nfs3.LINK3args], "LINK3res": mk[nfs3.LINK3res], "READDIR3args": mk[nfs3.READDIR3args], "READDIR3res": mk[nfs3.READDIR3res],
	"READDIRPLUS3args": mk[nfs3.READDIRPLUS3args], "READDIRPLUS3res": mk[nfs3.READDIRPLUS3res], "FSSTAT3res": mk[nfs3.FSSTAT3res],
	"FSINFO3res": mk[nfs3.FSINFO3res], "PATHCONF3res": mk[nfs3.PATHCONF3res], "COMMIT3res": mk[nfs3.COMMIT3res],
}

// model parses and checks a file.
func model(t testing.TB, file string, opts check.Options) *check.Model {
	t.Helper()
	src, err := os.ReadFile(file)
	must.Succeed(t, err)
	tree, err := syntax.Parse(file, src, syntax.Options{Include: os.ReadFile})
	must.Succeed(t, err)
	opts.Max = 1 << 20
	m, err := check.Check(tree, opts)
	must.Succeed(t, err)
	return m
}

// typesOf returns the types in a file by name.
func typesOf(t testing.TB, file string) map[string]*check.Type {
	list := map[string]*check.Type{}
	for _, u := range model(t, file, check.Options{Bytes: file == nfs3File}).Types {
		list[u.X] = u
	}
	return list
}

// whole returns a message's bytes, with items and their padding in place.
func whole(m xdr.Marshaler) []byte {
	e := xdr.NewEncoder(nil)
	m.EncodeXDR(e)
	var b []byte
	at := 0
	for _, it := range e.Items() {
		b = append(append(b, e.Bytes()[at:it.Off]...), it.Data...)
		b = append(b, make([]byte, xdr.Pad(len(it.Data)))...)
		at = it.Off
	}
	return append(b, e.Bytes()[at:]...)
}

// TestRandomMessages: generated types read and write the bytes that their declaration means, and
// refuse each truncation.
func TestRandomMessages(t *testing.T) {
	r := rand.New(rand.NewPCG(30, 1))
	for file, list := range map[string]map[string]func() message{allFile: allTypes, nfs3File: nfs3Types} {
		types := typesOf(t, file)
		for name, make := range list {
			for range 200 {
				in := sample.Append(nil, r, types[name])
				m := make()
				d := xdr.NewDecoder(in)
				m.DecodeXDR(d)
				if out := whole(m); d.Err() != nil || d.Remaining() > 0 || !bytes.Equal(in, out) {
					t.Fatalf("%s: got %x, %v, want %x", name, out, d.Err(), in)
				}
				cut := r.IntN(len(in))
				d = xdr.NewDecoder(in[: cut&^3 : cut&^3])
				if make().DecodeXDR(d); d.Err() == nil {
					t.Fatalf("%s: %x, cut to %d bytes: no error", name, in, cut&^3)
				}
			}
		}
	}
}

// TestDecodeAgain: a value that is decoded a second time keeps nothing from the earlier message.
func TestDecodeAgain(t *testing.T) {
	r := rand.New(rand.NewPCG(30, 2))
	types := typesOf(t, allFile)
	for name, make := range allTypes {
		used := make()
		for range 50 {
			in := sample.Append(nil, r, types[name])
			fresh := make()
			fresh.DecodeXDR(xdr.NewDecoder(in))
			used.DecodeXDR(xdr.NewDecoder(in))
			if !bytes.Equal(whole(used), whole(fresh)) {
				t.Fatalf("%s: got %+v, want %+v", name, used, fresh)
			}
		}
	}
}

// TestEveryTypeIsTested: allTypes has all types with methods.
func TestEveryTypeIsTested(t *testing.T) {
	for name, u := range typesOf(t, allFile) {
		if (u.Kind != check.Alias) != (allTypes[name] != nil) {
			t.Errorf("%s is not in allTypes, or an alias in it", name)
		}
	}
	for name, make := range allTypes {
		if reflect.TypeOf(make()).Kind() != reflect.Pointer {
			t.Errorf("%s is no pointer", name)
		}
	}
}

// FuzzDecode: arbitrary bytes for each generated type, which the first byte selects.
func FuzzDecode(f *testing.F) {
	r := rand.New(rand.NewPCG(30, 3))
	var list []func() message
	for _, file := range []string{allFile, nfs3File} {
		for _, u := range model(f, file, check.Options{Bytes: file == nfs3File}).Types {
			if make := map[string]map[string]func() message{allFile: allTypes, nfs3File: nfs3Types}[file][u.X]; make != nil {
				f.Add(sample.Append([]byte{byte(len(list))}, r, u))
				list = append(list, make)
			}
		}
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) == 0 {
			return
		}
		make := list[int(b[0])%len(list)]
		m, back := make(), make()
		d := xdr.NewDecoder(b[1:])
		if m.DecodeXDR(d); d.Err() != nil {
			return
		}
		again := whole(m)
		d = xdr.NewDecoder(again)
		if back.DecodeXDR(d); d.Err() != nil || d.Remaining() != 0 || !bytes.Equal(whole(back), again) {
			t.Errorf("%+v, again %+v, %v", m, back, d.Err())
		}
	})
}

// TestDeepValues: a recursive value is refused beyond a depth of 100, and a long list does not
// count as deep.
func TestDeepValues(t *testing.T) {
	deep := func(n int) []byte { // n trees, each the left branch of the one before
		return append(bytes.Repeat([]byte{0, 0, 0, 1}, n-1), make([]byte, 4+12*n)...)
	}
	for n, want := range map[int]error{1: nil, 100: nil, 101: xdr.ErrLimit, 100_000: xdr.ErrLimit} {
		d := xdr.NewDecoder(deep(n))
		if new(all.Tree).DecodeXDR(d); d.Err() != want {
			t.Errorf("a tree of depth %d: got %v, want %v", n, d.Err(), want)
		}
	}
	long := bytes.Repeat([]byte{0, 0, 0, 1, 0, 0, 0, 7, 0, 0, 0, 0}, 10_000)
	d := xdr.NewDecoder(append(long, make([]byte, 8)...))
	var c all.Chains
	if c.DecodeXDR(d); d.Err() != nil || len(c.First) != 10_000 {
		t.Errorf("a list: got %d elements, %v, want 10000", len(c.First), d.Err())
	}
	d = xdr.NewDecoder(bytes.Repeat(long, 10))
	if c.DecodeXDR(d); d.Err() != xdr.ErrLimit {
		t.Errorf("a list of 1.2 MB: got %v, want %v", d.Err(), xdr.ErrLimit)
	}
}
