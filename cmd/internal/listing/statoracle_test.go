// The letters of stat -c compared with stat of coreutils, on a local file of the same attributes.

package listing

import (
	"bytes"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/nfsrdma/nfsrdma/cmd/internal/session"
	"github.com/nfsrdma/nfsrdma/nfsclient"
	"github.com/nfsrdma/nfsrdma/xdr/nfs3"
)

// TestFormatsAreThoseOfStat: widths, flags and precisions of printf on numbers, names and times.
func TestFormatsAreThoseOfStat(t *testing.T) {
	tool, err := exec.LookPath("stat")
	if err != nil {
		t.Fatalf("no stat to compare with: it is of coreutils, as are cp and rm that other tests need: %v", err)
	}
	t.Chdir(t.TempDir())
	const name = "it's b"
	if err := os.WriteFile(name, make([]byte, 1234), 0o640); err != nil {
		t.Fatal(err)
	}
	for _, err := range []error{os.Chmod(name, 0o640|os.ModeSetgid), os.Chtimes(name, old, old.Add(5*time.Nanosecond))} {
		if err != nil {
			t.Fatal(err)
		}
	}
	fi, err := os.Lstat(name)
	if err != nil {
		t.Fatal(err)
	}
	st := fi.Sys().(*syscall.Stat_t)
	f := Stat{Operand: session.Operand{Arg: name}, Node: nfsclient.Node{Attr: nfs3.Fattr{Type: nfs3.TypeReg, Mode: st.Mode & 0o7777, Nlink: uint32(st.Nlink), UID: st.Uid, GID: st.Gid,
		Size: uint64(st.Size), Used: uint64(st.Blocks) * 512, Fileid: st.Ino, Mtime: nfs3.MakeTime(fi.ModTime()), Atime: nfs3.MakeTime(time.Unix(st.Atim.Unix()))}}}
	for _, format := range []string{"%a %A %h %i %u %g %U %G %s %F %f %b %B %n %N", "[%8s]", "[%-8s]", "[%08s]", "[%8a]", "[%-6a]", "[%06a]", "[%12A]", "[%-12A]",
		"[%20n]", "[%-20n]", "[%10U]", "[%-10G]", "[%3s]", "[%.3n]", "[%8.2n]", "[%-8.2n]", "%X %Y", "[%12X]", "[%-12Y]", "%x", "%y", "%%%s%%", "%s%", "plain", "", "[%30F]", "[%-30F]", "%f[%8f]"} {
		cmd := exec.Command(tool, "-c", format, name)
		cmd.Env = append(os.Environ(), "LC_ALL=C.UTF-8")
		want, err := cmd.Output()
		if err != nil {
			t.Fatalf("stat -c %q: %v", format, err)
		}
		var got bytes.Buffer
		p := NewPrinter(&got)
		p.Format = &format
		if err := p.Print(f); err != nil || got.String() != string(want) {
			t.Errorf("%q: %q, %v; stat writes %q", format, &got, err, want)
		}
	}
}
