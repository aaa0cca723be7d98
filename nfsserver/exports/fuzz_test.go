// Arbitrary bytes as an exports file.

package exports_test

import (
	"errors"
	"fmt"
	"net/netip"
	"reflect"
	"strings"
	"testing"
	"unicode"

	"github.com/nfsrdma/nfsrdma/nfsserver/exports"
)

// seeds has files with most features of the grammar.
var seeds = []string{"/ master(rw) trusty(rw,no_root_squash)\n", "/srv/www -sync,rw server @trusted @external(ro)", "\"/a b\" *(fsid=7)\\\n 10.0.0.0/8",
	`/a\040b ::/64(anonuid=-2)`, "/a b[0-9].c(rw,sec=sys) # x\n", "/foo 192.168.0.0/255.255.252.0(crossmnt,nohide)",
	"/a *(subtree_check,fsid=00112233-4455-6677-8899-aabbccddeeff)\r\n/b <world>(fsid=0x10)\r\n", "/long/path\n\t\tb(rw)\n", "/a b\n/a c(all_squash,no_acl)\n/a/ 10.0.0.1",
	"/a\\012b c(bad)", "\ufeff/a b", "/a -ro,sec=sys,sec=krb5:krb5p,rw b(insecure) c(sec=none,all_squash,xprtsec=tls)",
	"/a *(xprtsec=mtls,cert=*.x[0-9],ca=" + digest + ",certid=7:8)", "/a *(sec=krb5i,sec=sys,no_root_squash,sec=krb5i)"}

// digest is a value of ca=.
const digest = "00:11:22:33:44:55:66:77:88:99:AA:BB:CC:DD:EE:FF:00:11:22:33:44:55:66:77:88:99:aa:bb:cc:dd:ee:ff"

// format writes a parsed file as text: one line for each client, with all its options.
func format(f *exports.File) string {
	var b strings.Builder
	for _, x := range f.Exports {
		for i := range x.Clients {
			for _, c := range []byte(x.Path) {
				if c == '/' {
					b.WriteByte(c)
				} else {
					fmt.Fprintf(&b, `\%03o`, c)
				}
			}
			fmt.Fprintf(&b, " %s(%s%s)\n", x.Clients[i].Spec, &x.Clients[i].Options, formatWhole(&x.Whole))
		}
	}
	return b.String()
}

// formatWhole formats the options of a whole export. A number above 32 bits stands for a UUID.
func formatWhole(w *exports.Whole) (s string) {
	for _, o := range []struct {
		on   bool
		word string
	}{{w.CrossMounts, ",crossmnt"}, {w.NoHide, ",nohide"}, {w.SubtreeCheck, ",subtree_check"}, {w.HasFSID, fmt.Sprintf(",fsid=%016x%016x", w.FSID, 0)}} {
		if o.on {
			s += o.word
		}
	}
	return s
}

// wantPlace checks that an error has the package's type, is one line, and has a position in the
// text.
func wantPlace(t *testing.T, text []byte, err error) {
	t.Helper()
	e, ok := errors.AsType[*exports.Error](err)
	if !ok {
		t.Fatalf("%q: %v, of type %T", text, err, err)
	}
	lines := strings.Split(string(text), "\n")
	if e.Line < 1 || e.Line > len(lines) {
		t.Fatalf("%q: %v: line %d of %d", text, err, e.Line, len(lines))
	}
	if n := len(lines[e.Line-1]); e.Column < 1 || e.Column > n+1 {
		t.Fatalf("%q: %v: column %d of %d", text, err, e.Column, n)
	}
	if strings.ContainsFunc(err.Error(), unicode.IsControl) {
		t.Fatalf("%q: control bytes in %q", text, err)
	}
}

// FuzzParse: a text gives an error with a position, or a file that stays equal when it is formatted
// and parsed again.
func FuzzParse(f *testing.F) {
	for _, seed := range seeds {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		file, mistakes := exports.ParseAll("f", text)
		for _, err := range mistakes {
			wantPlace(t, text, err)
		}
		if (file == nil) != (len(mistakes) > 0) {
			t.Fatalf("%q: file %v, mistakes %v", text, file, mistakes)
		}
		if file == nil {
			return
		}
		again := format(file)
		g, err := exports.Parse("g", []byte(again))
		if err != nil {
			t.Fatalf("%q was taken, %q is not: %v", text, again, err)
		}
		if got, want := show(g), show(file); got != want {
			t.Fatalf("%q\nis %q\nwritten anew it is %q", text, want, got)
		}
	})
}

// FuzzUnrelatedRule: adding a client that no test address matches, or an unrelated export, changes
// no result.
func FuzzUnrelatedRule(f *testing.F) {
	for _, seed := range seeds {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		file, err := exports.Parse("f", text)
		if err != nil {
			return
		}
		anew := format(file)
		for _, x := range file.Exports {
			one := exports.File{Exports: []*exports.Export{x}}
			path, _, _ := strings.Cut(format(&one), " ")
			line := path + " unrelated.example.net(rw" + formatWhole(&x.Whole) + ")\n/of/no/other/export *(rw)\n"
			for _, longer := range []string{line + anew, anew + line} {
				g, err := exports.Parse("g", []byte(longer))
				if err != nil {
					if strings.Contains(anew, "unrelated.example.net") || strings.Contains(show(file), "/of/no/other/export ") {
						continue
					}
					t.Fatalf("%q: %v", longer, err)
				}
				wantSameAnswers(t, file, g)
			}
		}
	})
}

// wantSameAnswers compares the results of a's exports with those of b's at the same paths.
func wantSameAnswers(t *testing.T, a, b *exports.File) {
	t.Helper()
	of := map[string]*exports.Export{}
	for _, x := range b.Exports {
		of[x.Path] = x
	}
	for _, x := range a.Exports {
		y := of[x.Path]
		if y == nil {
			t.Fatalf("%s is gone", x.Path)
		}
		if !reflect.DeepEqual(x.Whole, y.Whole) {
			t.Fatalf("%s: %+v, want %+v", x.Path, y.Whole, x.Whole)
		}
		for _, addr := range modelAddrs {
			at := netip.MustParseAddr(addr)
			if got, want := answer(y.Match(at, modelResolver{})), answer(x.Match(at, modelResolver{})); got != want {
				t.Fatalf("%s from %s: %q, want %q", x.Path, addr, got, want)
			}
		}
	}
}
