// stat: the default format, and each directive of -c.

package listing

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"testing"
	"time"

	"github.com/nfsrdma/nfsrdma/nfsclient"
	"github.com/nfsrdma/nfsrdma/xdr/nfs3"
)

// made returns a device with everything that stat can show.
func made(r *rig) *Stat {
	s := &Stat{Operand: r.operand(""), target: "the/target"}
	s.Arg = "it's"
	s.Attr = nfs3.Fattr{Type: nfs3.TypeBlk, Mode: 0o6751, Nlink: 3, UID: 4294967294, GID: 4294967293, Size: 1234, Used: 513,
		Rdev: nfs3.Specdata{Major: 17, Minor: 255}, Fsid: 0xabc, Fileid: 99,
		Atime: nfs3.Time{Sec: 1, Nsec: 5}, Mtime: nfs3.Time{Sec: 2}, Ctime: nfs3.Time{Sec: 4294967295, Nsec: 999999999}}
	return s
}

// TestLettersOfStat: each directive of -c takes printf's flags, widths and precisions.
func TestLettersOfStat(t *testing.T) {
	r := newRig(t)
	s := made(r)
	at := func(sec, nsec int64) string {
		return time.Unix(sec, nsec).Format("2006-01-02 15:04:05.000000000 -0700")
	}
	for format, want := range map[string]string{
		"%a %A": "6751 brwsr-s--x", "%b %B": "2 512", "%d %D": "2748 abc", "%f": "6de9", "%F": "block special file",
		"%u %g": "4294967294 4294967293", "%U %G": "UNKNOWN UNKNOWN", "%h": "3", "%i": "99", "%l": "?", "%n": "it's", "%N": `"it's"`,
		"%o": fmt.Sprint(s.FS.MaxRead()), "%s": "1234", "%t,%T": "11,ff", "%X %Y %Z": "1 2 4294967295", "%W%w": "0-",
		"%x": at(1, 5), "%z": at(4294967295, 999999999),
		"%%": "%", "a%": "a%", "%q": "?", "%j%k": "??", "no letters": "no letters",
		"[%6s]": "[  1234]", "[%-6s]": "[1234  ]", "[%06s]": "[001234]", "[%.6s]": "[001234]", "[%-8.5s]": "[01234   ]", "%.3W": "0.000", "%r %R": "4607 11ff", "%Hr,%Lr": "17,255", "%Hd,%Ld": "10,188",
	} {
		var out bytes.Buffer
		p := NewPrinter(&out)
		p.Format = &format
		if err := p.Print(*s); err != nil || out.String() != want+"\n" {
			t.Errorf("%q: %q, %v; want %q", format, &out, err, want)
		}
	}
}

// TestTypeBits: %f has Unix's type bits above the permissions.
func TestTypeBits(t *testing.T) {
	p := NewPrinter(nil)
	for typ, want := range map[nfs3.FileType]string{nfs3.TypeReg: "81a4", nfs3.TypeDir: "41a4", nfs3.TypeLnk: "a1a4", nfs3.TypeChr: "21a4", nfs3.TypeSock: "c1a4", nfs3.TypeFIFO: "11a4"} {
		if got := p.value("f", &Stat{Node: nfsclient.Node{Attr: nfs3.Fattr{Type: typ, Mode: 0o644}}}, spec{}); got != want {
			t.Errorf("%v: %s, want %s", typ, got, want)
		}
	}
}

// TestStatForm: the default format shows a file, a link with its target, and a device as stat(1)
// does.
func TestStatForm(t *testing.T) {
	r := newRig(t)
	r.tree()
	show := func(path string, follow bool) string {
		s, err := NewStat(t.Context(), r.operand(path), follow)
		r.must(err)
		var out bytes.Buffer
		r.must(NewPrinter(&out).Print(s))
		return out.String()
	}
	for what, want := range map[string][]string{
		show("/d/b", true):     {"  File: " + r.url + "/d/b\n", "  Size: 100       \tBlocks: ", " regular file\n", "Links: 1\n", "Access: (0640/-rw-r-----)", "\nHandle: "},
		show("/d/link", false): {"/d/link -> sub\n", "symbolic link\n", "Access: (0777/lrwxrwxrwx)"},
		show("/d/link", true):  {"/d/link\n", " directory\n", "Access: (0750/drwxr-x---)"},
	} {
		for _, part := range want {
			if !strings.Contains(what, part) {
				t.Errorf("no %q in\n%s", part, what)
			}
		}
	}
	var out bytes.Buffer
	r.must(NewPrinter(&out).Print(*made(r)))
	if !strings.Contains(out.String(), "Links: 3     Device type: 17,255\n") {
		t.Errorf("a device:\n%s", &out)
	}
	if _, err := NewStat(t.Context(), r.operand("/d/none"), true); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("what is not there: %v", err)
	}
}

// TestControlCharacters: -c writes them unchanged, and the default format hides them.
func TestControlCharacters(t *testing.T) {
	r := newRig(t)
	s := made(r)
	s.Arg = "a\x1b[31mb"
	var plain, own bytes.Buffer
	r.must(NewPrinter(&plain).Print(*s))
	p := NewPrinter(&own)
	p.Format = new(string)
	*p.Format = "%n"
	r.must(p.Print(*s))
	if strings.Contains(plain.String(), "\x1b") || own.String() != "a\x1b[31mb\n" {
		t.Errorf("%q, %q", &plain, &own)
	}
}

// TestStatObject: --json has the handle, the device and the target.
func TestStatObject(t *testing.T) {
	r := newRig(t)
	r.tree()
	o := made(r).Object()
	if o.Device == nil || *o.Device != (Device{17, 255}) || o.Mode != "6751" || o.Type != "block device" {
		t.Errorf("%+v", o)
	}
	s, err := NewStat(t.Context(), r.operand("/d/link"), false)
	r.must(err)
	if o := s.Object(); o.Target == nil || *o.Target != "sub" || o.Handle == "" || o.TargetBase64 != "" {
		t.Errorf("%+v", o)
	}
}
