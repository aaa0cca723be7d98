// Modes of chmod(1): clauses, the umask, refusals, and chmod itself as the oracle.

package text

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/nfsrdma/nfsrdma/nfsclient"
	"github.com/nfsrdma/nfsrdma/test/machine"
	"github.com/nfsrdma/nfsrdma/test/must"
	"github.com/nfsrdma/nfsrdma/xdr/nfs3"
)

func TestParseMode(t *testing.T) {
	const file, dir = fs.FileMode(0o640), fs.ModeDir | 0o750
	for _, c := range []struct {
		s     string
		from  fs.FileMode
		umask fs.FileMode
		want  uint32 // as on the wire
	}{
		{"755", file, 0o77, 0o755}, {"0", file, 0, 0}, {"7777", file, 0, 0o7777}, {"000644", file, 0, 0o644},
		{"u=rwx,go=rx", file, 0o77, 0o755}, {"a=r", file, 0, 0o444}, {"ug+w", file, 0, 0o660}, {"o-r", fs.FileMode(0o644), 0, 0o640},
		{"+x", file, 0o022, 0o751}, {"+w", file, 0o022, 0o640}, {"-w", fs.FileMode(0o666), 0o022, 0o466}, {"=r", file, 0o077, 0o400},
		{"+X", file, 0, 0o640}, {"+X", dir, 0, 0o751}, {"a+X", fs.FileMode(0o100), 0, 0o111},
		{"u+s", file, 0, 0o4640}, {"g+s", file, 0, 0o2640}, {"+t", dir, 0, 0o1750}, {"o+t", file, 0, 0o1640}, {"u=", dir, 0, 0o050},
		{"g=u", file, 0, 0o660}, {"o=g", file, 0, 0o644}, {"u=g,g=o", file, 0, 0o400}, {"u+r-w+x", file, 0, 0o540}, {"go-rwx", dir, 0, 0o700},
		{"u=rw,u+x", file, 0, 0o740}, {"ugo=rwx", file, 0o77, 0o777},
	} {
		got, err := ParseMode(c.s, c.from, c.umask)
		if err != nil || nfsclient.WireMode(got) != c.want {
			t.Errorf("%s of %v with umask %03o: %04o, %v, want %04o", c.s, c.from, uint32(c.umask), nfsclient.WireMode(got), err, c.want)
		}
	}
	for _, s := range []string{"", "u", "8", "10000", "g=uw", "u+755", "+rwz", "x+r", "u=rwx,", ",u+r", "u r", "rw", "u+r,go", "0x1ff"} {
		if got, err := ParseMode(s, file, 0); err == nil {
			t.Errorf("%q is taken for %v", s, got)
		}
	}
}

// modeWords returns modes in all forms: clauses, lists of clauses, and numbers. chmod(1) accepts
// most, and refuses some.
func modeWords() []string {
	list := []string{"u+x", "g=u", "o=g", "u=o", "u=u", "a+X", "u+s,g+s", "o=u-w", "go=", "u=rwx,g=rx,o=t", "641", "0", "00", "1777", "2755", "02755", "00755",
		"4000", "6711", "07777", "0000000644", "+755", "-022", "=644", "=02750", "+4000", "-6000", "u+r-w+x", "ug=rw,o=", "a=,u+s", "a=rwx,g-s", "g+s,g=rx",
		"u=s", "g=s", "o=s", "a=s", "u=t", "u=rwxs", "+s", "-s", "=s", "=t", "=st", "ugo+X", "-x,+X", "u-x,a+X", "a-x+X", "=X", "a=X", "u+", "a-", "=",
		"+", "u=g+w", "u=g,g=o,o=u", "uuu+w", "ua+w", "go-rwx,a+t", "a-t", "o-t", "u-t", "u+rw+x", "ug-w=r", "+r-w=x", "u=rw-r", "u+xX", "u=,g=u,o=g"}
	for _, classes := range []string{"", "u", "go", "a"} {
		for _, op := range []string{"+", "-", "="} {
			for _, what := range []string{"r", "w", "rwx", "X", "s", "t", "g", "wst"} {
				list = append(list, classes+op+what)
			}
		}
	}
	return append(list, "", "u", "8", "10000", "0000010000", "g=uw", "u=wg", "u=ug", "u+755", "+75r", "+755-1", "+8", "+r z", "+rwz", "x+r", "u=rwx,", ",u+r",
		"u r", "rw", "u+r,go", "0x1ff", "755,u+x", "u+x,755", "U+x", "+R", "é+x", "u+é")
}

// ParseMode and chmod(1) agree about each of modeWords, for files and directories with and without
// the special bits.
func TestParseModeIsThatOfChmod(t *testing.T) {
	tool, err := exec.LookPath("chmod")
	if err != nil {
		machine.Skip(t, "no chmod to compare with")
	}
	defer syscall.Umask(syscall.Umask(0o026))
	froms := []fs.FileMode{0, 0o654, 0o4711, 0o2640, 0o7777, fs.ModeDir | 0o700, fs.ModeDir | 0o2654, fs.ModeDir | 0o6711, fs.ModeDir | 0o7777}
	names := make([]string, len(froms))
	for i, from := range froms {
		names[i] = filepath.Join(t.TempDir(), "x")
		if from.IsDir() {
			err = os.Mkdir(names[i], 0o700)
		} else {
			err = os.WriteFile(names[i], nil, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
		froms[i] = from.Type() | nfsclient.GoMode(nfs3.TypeReg, uint32(from.Perm()|from&0o7000))
	}
	for _, s := range modeWords() {
		for i, from := range froms {
			must.Succeed(t, os.Chmod(names[i], from))
		}
		cmd := exec.Command(tool, append([]string{"--", s}, names...)...)
		cmd.Env = append(os.Environ(), "LC_ALL=C")
		said, toolErr := cmd.CombinedOutput()
		invalid := strings.Contains(string(said), "invalid mode")
		if toolErr != nil && !invalid {
			t.Fatalf("chmod %s: %v, %s", s, toolErr, said)
		}
		for i, from := range froms {
			fi, err := os.Stat(names[i])
			if err != nil {
				t.Fatalf("os.Stat: %v", err)
			}
			got, err := ParseMode(s, from, 0o026)
			if want := nfsclient.WireMode(fi.Mode()); (err != nil) != invalid || err == nil && nfsclient.WireMode(got) != want {
				t.Errorf("%q of %v: %04o, %v; chmod makes %04o, and says %q", s, from, nfsclient.WireMode(got), err, want, said)
			}
		}
	}
}
