// The lines of ls compared with coreutils' ls, on local files with the same attributes.

package listing

import (
	"bytes"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nfsrdma/nfsrdma/cmd/internal/session"
	"github.com/nfsrdma/nfsrdma/cmd/internal/text"
	"github.com/nfsrdma/nfsrdma/test/must"
	"github.com/nfsrdma/nfsrdma/xdr/nfs3"
)

// localRow returns a row for a local file, as a server with the same files would give it.
func localRow(t *testing.T, name string) *row {
	t.Helper()
	fi, err := os.Lstat(name)
	if err != nil {
		t.Fatalf("os.Lstat: %v", err)
	}
	st := fi.Sys().(*syscall.Stat_t)
	types := map[os.FileMode]nfs3.FileType{0: nfs3.TypeReg, os.ModeDir: nfs3.TypeDir, os.ModeSymlink: nfs3.TypeLnk, os.ModeNamedPipe: nfs3.TypeFIFO, os.ModeSocket: nfs3.TypeSock}
	at := func(s syscall.Timespec) nfs3.Time { return nfs3.MakeTime(time.Unix(s.Unix())) }
	return &row{name: name, attr: &nfs3.Fattr{Type: types[fi.Mode().Type()], Mode: st.Mode & 0o7777, Nlink: uint32(st.Nlink), UID: st.Uid, GID: st.Gid,
		Size: uint64(st.Size), Used: uint64(st.Blocks) * 512, Fileid: st.Ino, Atime: at(st.Atim), Mtime: at(st.Mtim), Ctime: at(st.Ctim)}}
}

// localTree fills the working directory with names, sizes, times and modes that differ under some
// option.
func localTree(t *testing.T) (names []string) {
	t.Helper()
	t.Chdir(t.TempDir())
	now := time.Now()
	for i, f := range []struct {
		name string
		size int64
		mode os.FileMode
		at   time.Time
	}{
		{"a b", 5, 0o755, old}, {"it's", 1023, 0o644 | os.ModeSetuid, now.Add(-halfYear - 25*time.Hour)}, {"new\nline", 1024, 0o700 | os.ModeSticky, now.Add(-halfYear + 25*time.Hour)},
		{"\xff", 10239, 0o711 | os.ModeSetgid, old.Add(time.Nanosecond)}, {"日本", 10240, 0, now.Add(48 * time.Hour)}, {"$x", 1 << 40, 0o640, now.Add(-time.Hour)},
		{"same1", 5, 0o644, old}, {"same2", 5, 0o644, old}, {"B", 999, 0o777, old.Add(-time.Hour)}, {"tab\t\"q\"\\", 0, 0o600, old},
	} {
		fd, err := os.Create(f.name)
		if err != nil {
			t.Fatalf("os.Create: %v", err)
		}
		must.Succeed(t, fd.Truncate(f.size), fd.Close(), os.Chmod(f.name, f.mode), os.Chtimes(f.name, f.at.Add(time.Duration(i)*time.Hour), f.at))
		names = append(names, f.name)
	}
	must.Succeed(t, os.Mkdir("dir", 0o750), syscall.Mkfifo("pipe", 0o600), os.Symlink("no where", "link"))
	return append(names, "dir", "pipe", "link")
}

// lines returns our ls output of rows, which it sorts itself.
func lines(t *testing.T, o Options, names []string) string {
	t.Helper()
	var out bytes.Buffer
	l, err := New(new(session.Session), &out, o)
	if err != nil {
		t.Fatalf("New: %v", err)
	}
	var rows []*row
	for _, n := range names {
		rows = append(rows, localRow(t, n))
	}
	l.sort(rows)
	if err := l.rows(t.Context(), dir{}, rows); err != nil {
		t.Fatalf("rows: %v", err)
	}
	if err := l.out.Flush(); err != nil {
		t.Fatalf("Flush: %v", err)
	}
	return out.String()
}

// TestLinesAreThoseOfLs: names, order, signs, quoting, sizes, times and columns match ls for each
// option.
func TestLinesAreThoseOfLs(t *testing.T) {
	tool, err := exec.LookPath("ls")
	if err != nil {
		t.Fatalf("no ls to compare with: it is of coreutils, as is stat: %v", err)
	}
	names := localTree(t)
	for args, o := range map[string]Options{
		"":                                 {},
		"-r":                               {Reverse: true},
		"-S":                               {Size: true},
		"-Sr":                              {Size: true, Reverse: true},
		"-t":                               {Time: true},
		"-tr":                              {Time: true, Reverse: true},
		"-tu":                              {Time: true, Atime: true},
		"-u":                               {Atime: true},
		"-F":                               {Classify: true},
		"-p":                               {Slash: true},
		"-i":                               {Inode: true},
		"-b":                               {Quoting: text.Escape},
		"-Q":                               {Quoting: text.C},
		"-q":                               {Hide: true},
		"-N":                               {Quoting: text.Literal},
		"--zero":                           {Zero: true},
		"--zero -l":                        {Zero: true, Long: true},
		"-Q --zero":                        {Zero: true, One: true, Quoting: text.Literal},
		"--quoting-style=shell":            {Quoting: text.Shell},
		"--quoting-style=shell-escape":     {Quoting: text.ShellEscape},
		"--quoting-style=c":                {Quoting: text.C},
		"--quoting-style=literal":          {Quoting: text.Literal},
		"-l":                               {Long: true},
		"-n":                               {Long: true, Numeric: true},
		"-lh":                              {Long: true, Human: true},
		"-lhS":                             {Long: true, Human: true, Size: true},
		"-lu":                              {Long: true, Atime: true},
		"-lut":                             {Long: true, Atime: true, Time: true},
		"-lc":                              {Long: true, Ctime: true},
		"-li":                              {Long: true, Inode: true},
		"-lQ":                              {Long: true, Quoting: text.C},
		"-lp":                              {Long: true, Slash: true},
		"-C":                               {Columns: true},
		"-Ci":                              {Columns: true, Inode: true},
		"-CF -b":                           {Columns: true, Classify: true, Quoting: text.Escape},
		"-C -1":                            {One: true},
		"-C --quoting-style=shell":         {Columns: true, Quoting: text.Shell},
		"-Ci --quoting-style=shell":        {Columns: true, Inode: true, Quoting: text.Shell},
		"-l --quoting-style=shell":         {Long: true, Quoting: text.Shell},
		"-li --quoting-style=shell-escape": {Long: true, Inode: true, Quoting: text.ShellEscape},
		"-C --quoting-style=shell-always":  {Columns: true, Quoting: text.ShellAlways},
		"--zero -C":                        {Columns: true, Zero: true},
		"--zero -Q":                        {One: true, Zero: true, Quoting: text.C},
	} {
		names := names
		if o.Long || o.Numeric {
			// leave out the link: its target's type would need a call to the server
			names = names[:len(names)-1]
		}
		cmd := exec.Command(tool, append(append(strings.Fields(args), "-d", "--"), names...)...)
		cmd.Env = append(os.Environ(), "LC_ALL=C.UTF-8", "LC_COLLATE=C", "TIME_STYLE=locale", "QUOTING_STYLE=literal", "COLUMNS=80")
		want, err := cmd.Output()
		if err != nil {
			t.Fatalf("ls %s: %v", args, err)
		}
		if got := lines(t, o, names); got != string(want) {
			t.Errorf("ls %s:\n got %q\nwant %q", args, got, want)
		}
	}
}
