// Modes of chmod(1): clauses, the umask, what is refused, and chmod itself as the oracle.

package text

import (
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/nfsrdma/nfsrdma/nfsclient"
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
	for _, s := range []string{"", "u", "8", "10000", "0000000644", "u+", "+rwz", "x+r", "u=rwx,", ",u+r", "u r", "rw", "u+r,go", "-1", "0x1ff"} {
		if got, err := ParseMode(s, file, 0); err == nil && s != "u+" {
			t.Errorf("%q is taken for %v", s, got)
		}
	}
}

// The same clauses by chmod(1), on a file and on a directory.
func TestParseModeIsThatOfChmod(t *testing.T) {
	tool, err := exec.LookPath("chmod")
	if err != nil {
		skip(t, "no chmod to compare with")
	}
	defer syscall.Umask(syscall.Umask(0o026))
	top := t.TempDir()
	for i, s := range []string{"u+x", "+x", "-r", "=w", "g=u", "o=g", "a+X", "u+s,g+s", "o=u-w", "go=", "u=rwx,g=rx,o=t", "+t", "641"} {
		for _, isDir := range []bool{false, true} {
			name := filepath.Join(top, fmt.Sprint(i, isDir))
			from := fs.FileMode(0o654)
			if isDir {
				err = os.Mkdir(name, 0o700)
			} else {
				err = os.WriteFile(name, nil, 0o600)
			}
			if err == nil {
				err = os.Chmod(name, from)
			}
			if err != nil {
				t.Fatal(err)
			}
			said, toolErr := exec.Command(tool, s, name).CombinedOutput()
			if toolErr != nil && !strings.Contains(string(said), "new permissions are") {
				t.Fatalf("chmod %s: %v, %s", s, toolErr, said)
			}
			fi, err := os.Stat(name)
			if err != nil {
				t.Fatal(err)
			}
			if isDir {
				from |= fs.ModeDir
			}
			got, err := ParseMode(s, from, 0o026)
			if want := nfsclient.WireMode(fi.Mode()); err != nil || nfsclient.WireMode(got) != want {
				t.Errorf("%s, directory %v: %04o, %v; chmod makes %04o", s, isDir, nfsclient.WireMode(got), err, want)
			}
		}
	}
}
