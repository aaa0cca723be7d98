// Commands compared with coreutils: a command line has the same result on a local directory and on
// a served one.

package main

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nfsrdma/nfsrdma/test/machine"
	"github.com/nfsrdma/nfsrdma/test/must"
	"golang.org/x/sys/unix"
)

// A twin has a local directory, and a served one with the same content.
type twin struct {
	t             *testing.T
	base          string // URL of the exported directory that served is
	local, served string
	turn          int
}

// newTwin serves a directory over TCP.
func newTwin(t *testing.T) *twin {
	if v, err := exec.Command("rm", "--version").Output(); err != nil || !strings.Contains(string(v), "coreutils") {
		machine.Skip(t, "no coreutils to compare with")
	}
	top := t.TempDir()
	_, base := serveDir(t, top)
	return &twin{t: t, base: base + "/dir", served: top, local: t.TempDir()}
}

// fresh makes new copies of both trees.
func (w *twin) fresh() (local, served, url string) {
	defer syscall.Umask(syscall.Umask(0o022))
	w.turn++
	name := fmt.Sprint(w.turn)
	local, served = filepath.Join(w.local, name), filepath.Join(w.served, name)
	for _, top := range []string{local, served} {
		for _, d := range []string{"d/e", "z", "full/sub"} {
			must.Succeed(w.t, os.MkdirAll(filepath.Join(top, d), 0o755))
		}
		for _, f := range []string{"f", "g", "d/h", "full/1", "full/2", "full/sub/3"} {
			must.Succeed(w.t, os.WriteFile(filepath.Join(top, f), []byte(f+"\n"), 0o644))
		}
		for l, target := range map[string]string{"lf": "f", "ld": "d", "dang": "nope", "loop": "loop"} {
			must.Succeed(w.t, os.Symlink(target, filepath.Join(top, l)))
		}
		w.setTimes(top)
	}
	return local, served, w.base + "/" + name
}

// setTimes makes the times of both trees the same, some of them in this year.
func (w *twin) setTimes(top string) {
	old := time.Date(2011, 12, 13, 14, 15, 16, 0, time.UTC)
	recent := time.Now().Add(-48 * time.Hour).Truncate(time.Hour)
	for name, when := range map[string]time.Time{"f": recent, "g": old, "d/h": recent.Add(time.Minute), "d/e": old, "d": recent.Add(time.Hour),
		"z": old.Add(time.Hour), "full/1": old, "full/2": old, "full/sub/3": old, "full/sub": recent, "full": old.Add(time.Minute), ".": recent} {
		must.Succeed(w.t, os.Chtimes(filepath.Join(top, name), when, when))
	}
	for _, l := range []string{"lf", "ld", "dang", "loop"} {
		ts := []unix.Timespec{{Sec: old.Unix()}, {Sec: old.Unix() + int64(len(l))}}
		must.Succeed(w.t, unix.UtimesNanoAt(unix.AT_FDCWD, filepath.Join(top, l), ts, unix.AT_SYMLINK_NOFOLLOW))
	}
}

// same runs a line with coreutils and with the program on fresh trees, and compares. A word that
// begins with @ is a path.
func (w *twin) same(stdin, line string) {
	w.t.Helper()
	local, served, url := w.fresh()
	words := strings.Fields(line)
	here, there := make([]string, len(words)), make([]string, len(words))
	for i, word := range words {
		here[i], there[i] = word, word
		if p, ok := strings.CutPrefix(word, "@"); ok {
			here[i], there[i] = p, url+"/"+p
		}
	}
	cmd := exec.Command(here[0], here[1:]...)
	cmd.Dir = local
	cmd.Env = append(os.Environ(), "LC_ALL=C")
	cmd.Stdin = strings.NewReader(stdin)
	var wantOut, wantErr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &wantOut, &wantErr
	_ = cmd.Run()
	var gotOut, gotErr bytes.Buffer
	code := run(w.t.Context(), there, strings.NewReader(stdin), &gotOut, &gotErr)
	plain := func(b *bytes.Buffer) string {
		s := strings.ReplaceAll(b.String(), url+"/", "")
		return strings.ReplaceAll(s, "nfsrdma: ", "")
	}
	if want := cmd.ProcessState.ExitCode(); code != want {
		w.t.Errorf("%s: exit status %d, want %d", line, code, want)
	}
	if got, want := plain(&gotOut), wantOut.String(); got != want {
		w.t.Errorf("%s: prints\n%q\nwant\n%q", line, got, want)
	}
	if got, want := plain(&gotErr), wantErr.String(); got != want {
		w.t.Errorf("%s: reports\n%q\nwant\n%q", line, got, want)
	}
	if got, want := lookOf(w.t, served), lookOf(w.t, local); got != want {
		w.t.Errorf("%s: leaves\n%s\nwant\n%s", line, got, want)
	}
}

// lookOf describes a tree: names, modes, link counts, link contents, file contents.
func lookOf(t *testing.T, top string) string {
	var b strings.Builder
	if err := filepath.WalkDir(top, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		fi, err := d.Info()
		if err != nil {
			return err
		}
		target, _ := os.Readlink(p)
		var content []byte
		if fi.Mode().IsRegular() {
			content, _ = os.ReadFile(p)
		}
		links := uint64(1) // for a directory, the file system decides
		if !fi.IsDir() {
			links = uint64(fi.Sys().(*syscall.Stat_t).Nlink)
		}
		fmt.Fprintf(&b, "%s %v %d %s %q\n", strings.TrimPrefix(p, top), fi.Mode(), links, target, content)
		return nil
	}); err != nil {
		t.Fatalf("filepath.WalkDir: %v", err)
	}
	return b.String()
}

// nameLines has the command lines about names and their objects.
const nameLines = `
rm @f
rm @f @nope @g
rm @d
rm @d @f
rm @d/
rm @f/
rm -f @f/
rm -r @f/
rm -f @nope @f
rm -f @f/x
rm @f/x
rm -f
rm -r @d
rm -rv @z
rm -v @f @lf @ld @dang @loop
rm -dv @z
rm -d @full
rm -d @z/
rm -r @d/.
rm -r @d/..
rm -r @d/../
rm @d/.
rm @ld/
rm @lf/
rm @dang/
rm -r @d/../f
rm @ld/h
rm -r @full @nope @z
rm -rf @full @nope @z
mkdir @n
mkdir @n/
mkdir @n @f @m
mkdir @f/x
mkdir @nope/x
mkdir @d
mkdir @d/
mkdir @dang
mkdir @.
mkdir @d/..
mkdir @nope/../x
mkdir -p @nope/../x
mkdir -p @d @n/m/o @d/e/x/
mkdir -pv @n/m//o/
mkdir -v @n @m
mkdir -p @f
mkdir -p @f/x
mkdir -p @dang/x
mkdir -p @ld/x/y
mkdir -p @ld/../y
mkdir -m 700 @n
mkdir -m 1777 @n
mkdir -m u=rwx,go= @n
mkdir -m a=rwx,g-w,o+t @n
mkdir -m +x @n
mkdir -m a=rX @n
mkdir -m u=rw,g=u,o=g-w @n
mkdir -p -m 700 @n/m
ln @f @n
ln @f @g
ln @f @d
ln @f @d/
ln @f @n/
ln @f @ld
ln @d @n
ln @nope @n
ln @lf @n
ln -f @f @g
ln -f @f @d
ln -f @f @f
ln @f @f
ln -fv @f @g
ln -T @f @d
ln -fT @f @d
ln -n @f @ld
ln -fn @f @ld
ln -s x @n
ln -s x @f
ln -sf x @f
ln -sfv x @f
ln -sfn x @ld
ln -sf x @ld
ln -sfT x @ld
ln -sfT x @d
ln -s a b @d
ln -s a b @f
ln -s a b @nope
ln -st @d a b
ln -st @f a b
ln -t @d @f @nope @g
ln @f @g @z
ln @f @z/x/y
ln -s x @nope/y
ln -sv x @n
cat @f @g
cat @f @d @nope @g
cat @f/
cat @lf @ld/h @d/../f
cat @dang
cat @loop
`

func TestCommandsAreThoseOfCoreutils(t *testing.T) {
	w := newTwin(t)
	for _, line := range strings.Split(strings.TrimSpace(nameLines), "\n") {
		w.same("", line)
	}
	for _, c := range []struct{ stdin, line string }{
		{"y\n", "rm -i @f"}, {"n\n", "rm -i @f @g"}, {"", "rm -i @f"}, {"y\n", "rm -i @lf @d"},
		{"y\ny\nn\ny\ny\n", "rm -ri @d"}, {"y\n", "rm -I @f @g @lf @ld"}, {"n\n", "rm -rI @d"}, {"", "rm -I @f"}, {"y\nn\n", "rm -di @z @full"},
		{"y\n", "ln -i @f @g"}, {"n\n", "ln -si x @g"},
	} {
		w.same(c.stdin, c.line)
	}
	for _, mask := range []int{0, 0o027, 0o777} {
		old := syscall.Umask(mask)
		for _, line := range []string{"mkdir @n", "mkdir -p @n/m", "mkdir -m 775 @n", "mkdir -m +w @n", "mkdir -m g+w @n", "mkdir -m =rwx @n"} {
			w.same("", line)
		}
		syscall.Umask(old)
	}
}

// lsLines has the command lines about listings.
const lsLines = `
ls @.
ls @d
ls @d/
ls @f
ls @f/
ls @nope
ls @f @d @nope @g @z
ls -l @.
ls -l @d
ls -l @f
ls -l @f @d @z @g
ls -la @d
ls -lA @.
ls -a @z
ls -a @.
ls -1 @.
ls -C @.
ls -d @.
ls -d @d @f @ld
ls -ld @d @ld @ld/
ls @ld
ls @ld/
ls -l @ld
ls -l @ld/
ls -F @.
ls -F @ld
ls -lF @.
ls -p @.
ls @dang
ls @dang/
ls -l @dang @loop @lf
ls -L @lf
ls -lL @lf @ld
ls -R @.
ls -lR @full
ls -aR @full
ls -t @.
ls -tr @.
ls -lt @full
ls -S @.
ls -lSr @full
ls -r @.
ls -n @.
ls -lh @full
ls -Q @.
ls -b @d
ls --quoting-style=shell-escape-always @.
ls --zero @.
ls -l --zero @full
ls -u @.
ls -lu @full
ls @f/x
ls @d/../f
ls @ld/../f @ld/..
ls -d @full/../d
ls -U @z
ls -lU @f
stat -c %n:%s:%a:%A:%F:%h:%u:%U:%g:%G:%Y:%y:%X:%f:%b:%B:%% @f @d @lf @nope @full/1
stat -c %N @lf @f
stat -L -c %n:%s:%F @lf @ld
stat -c %10s|%-10s|%010s|%.3F @f
stat -c %s @ld/
stat -c %s @f/
stat -c %F:%t:%T @z
`

func TestListingsAreThoseOfCoreutils(t *testing.T) {
	w := newTwin(t)
	for _, line := range strings.Split(strings.TrimSpace(lsLines), "\n") {
		w.same("", line)
	}
}
