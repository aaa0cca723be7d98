// The directives of stat -c compared with coreutils' stat, on a local file with the same
// attributes.

package listing

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nfsrdma/nfsrdma/cmd/internal/session"
	"github.com/nfsrdma/nfsrdma/nfsclient"
	"github.com/nfsrdma/nfsrdma/test/must"
	"github.com/nfsrdma/nfsrdma/xdr/nfs3"
	"golang.org/x/sys/unix"
)

// statOf returns a local file as a server would show it.
func statOf(t *testing.T, name string) Stat {
	t.Helper()
	fi, err := os.Lstat(name)
	if err != nil {
		t.Fatalf("os.Lstat: %v", err)
	}
	st := fi.Sys().(*syscall.Stat_t)
	kind := nfs3.TypeReg
	if st.Mode&syscall.S_IFMT == syscall.S_IFCHR {
		kind = nfs3.TypeChr
	}
	return Stat{Operand: session.Operand{Arg: name}, Node: nfsclient.Node{Attr: nfs3.Fattr{
		Type: kind, Mode: st.Mode & 0o7777, Nlink: uint32(st.Nlink), UID: st.Uid, GID: st.Gid,
		Size: uint64(st.Size), Used: uint64(st.Blocks) * 512, Fsid: st.Dev, Fileid: st.Ino,
		Rdev:  nfs3.Specdata{Major: unix.Major(st.Rdev), Minor: unix.Minor(st.Rdev)},
		Atime: nfs3.MakeTime(time.Unix(st.Atim.Unix())), Mtime: nfs3.MakeTime(fi.ModTime()), Ctime: nfs3.MakeTime(time.Unix(st.Ctim.Unix())),
	}}}
}

// TestFormatsAreThoseOfStat: every directive with every flag, and widths and precisions of each
// kind. Birth time, mount point, transfer size and security context differ on a server.
func TestFormatsAreThoseOfStat(t *testing.T) {
	tool, err := exec.LookPath("stat")
	if err != nil {
		t.Fatalf("no stat to compare with: it is of coreutils, as are cp and rm that other tests need: %v", err)
	}
	t.Chdir(t.TempDir())
	const name = "it's b"
	must.Succeed(t, os.WriteFile(name, make([]byte, 1234), 0o640))
	must.Succeed(t, os.Chmod(name, 0o640|os.ModeSetgid), os.Chtimes(name, old, old.Add(50_060_070*time.Nanosecond)), os.WriteFile("empty", nil, 0))
	formats := []string{"%a %A %h", "%%%s%%", "%s%", "plain", "", `a\nb`, "%5%", "x%s%5%y", "%-", "%.3", "%#", "%I", "%.3.4s", "%H%L%Hx%5L", "%99999999999999999999%"}
	for _, letter := range strings.Fields("a A b B d D Hd Ld f F g G h i n N r R s t T Hr Lr u U x X y Y z Z k H L q") {
		var f strings.Builder
		for _, flags := range []string{"", "-", "+", " ", "#", "0", "'", "I", "-0", "+ ", "#0", "-#", "-+", "0+", "'0"} {
			for _, width := range []string{"", "1", "3", "8", "11", "12", "15", "20", "30"} {
				for _, precision := range []string{"", ".", ".0", ".1", ".2", ".3", ".5", ".9", ".12"} {
					f.WriteString("[%" + flags + width + precision + letter + "]")
				}
			}
		}
		formats = append(formats, f.String())
	}
	for _, file := range []string{name, "empty", "/dev/null"} {
		f := statOf(t, file)
		for _, format := range formats {
			cmd := exec.Command(tool, "-c", format, file)
			cmd.Env = append(os.Environ(), "LC_ALL=C.UTF-8")
			want, failed := cmd.Output()
			var got bytes.Buffer
			p := NewPrinter(&got)
			p.Format = &format
			err := p.Print(f)
			if (err != nil) != (failed != nil) {
				t.Errorf("%s, %q: %v; stat: %v", file, format, err, failed)
			}
			if got.String() != string(want) {
				t.Errorf("%s: %s", file, firstDifference(format, got.String(), string(want)))
			}
		}
	}
}

// firstDifference names the first directive in brackets that came out otherwise.
func firstDifference(format, got, want string) string {
	f, g, w := strings.Split(format, "]"), strings.Split(got, "]"), strings.Split(want, "]")
	for i := range min(len(f), len(g), len(w)) {
		if g[i] != w[i] {
			return fmt.Sprintf("%q: %q, stat writes %q", f[i], g[i], w[i])
		}
	}
	return fmt.Sprintf("%q: %q, stat writes %q", format, got, want)
}
