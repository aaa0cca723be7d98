// Tests of sizes and modes.

package text

import (
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/nfsrdma/nfsrdma/test/machine"
)

func TestFormat(t *testing.T) {
	for m, want := range map[fs.FileMode]string{
		0o644: "-rw-r--r--", fs.ModeDir | fs.ModeSticky | 0o777: "drwxrwxrwt", fs.ModeSymlink | 0o777: "lrwxrwxrwx",
		fs.ModeSetuid | 0o655: "-rwSr-xr-x", fs.ModeDevice | fs.ModeCharDevice | 0o600: "crw-------",
	} {
		if got := ModeString(m); got != want {
			t.Errorf("%v is written %s, want %s", m, got, want)
		}
	}
	for n, want := range map[uint64]string{0: "0 B", 1023: "1023 B", 1024: "1.0 KiB", 1 << 40: "1.0 TiB", 1<<64 - 1: "16.0 EiB"} {
		if got := Size(n); got != want {
			t.Errorf("%d is written %s, want %s", n, got, want)
		}
	}
}

func TestHumanSizeRoundsUp(t *testing.T) {
	for n, want := range map[uint64]string{0: "0", 1023: "1023", 1024: "1.0K", 1025: "1.1K", 1536: "1.5K", 1537: "1.6K", 10137: "9.9K", 10138: "10K",
		10239: "10K", 10240: "10K", 10241: "11K", 1047552: "1023K", 1047553: "1.0M", 1 << 20: "1.0M", 1<<20 + 1: "1.1M", 1 << 60: "1.0E", 1<<64 - 1: "16E"} {
		if got := HumanSize(n); got != want {
			t.Errorf("%d: %s, want %s", n, got, want)
		}
	}
}

// HumanSize agrees with numfmt(1), which rounds as ls does, around each power of two and of ten.
func TestHumanSizeIsThatOfNumfmt(t *testing.T) {
	tool, err := exec.LookPath("numfmt")
	if err != nil {
		machine.Skip(t, "no numfmt to compare with")
	}
	var sizes []uint64
	for shift := range 62 {
		for _, n := range []uint64{1, 3, 5, 10, 99, 999, 1000, 1023} {
			if n<<shift>>shift == n && n<<shift < 1<<62 {
				sizes = append(sizes, n<<shift, n<<shift-1, n<<shift+1)
			}
		}
	}
	for n := uint64(1); n < 1e18; n *= 10 {
		sizes = append(sizes, n, 9*n, 95*n/10, 995*n/100)
	}
	var in, got strings.Builder
	for _, n := range sizes {
		in.WriteString(strconv.FormatUint(n, 10) + "\n")
		got.WriteString(HumanSize(n) + "\n")
	}
	cmd := exec.Command(tool, "--to=iec")
	cmd.Stdin = strings.NewReader(in.String())
	cmd.Env = append(os.Environ(), "LC_ALL=C")
	want, err := cmd.Output()
	if err != nil {
		t.Fatalf("cmd.Output: %v", err)
	}
	diffLines(t, "numfmt", got.String(), string(want))
}

// ModeString and FileType agree with stat(1): for each of the 4096 modes, and each file type that
// the test can make.
func TestModesAndTypesAreThoseOfStat(t *testing.T) {
	tool, err := exec.LookPath("stat")
	if err != nil {
		machine.Skip(t, "no stat to compare with")
	}
	dir := t.TempDir()
	var names []string
	made := func(name string, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, name)
	}
	at := func(name string) string { return filepath.Join(dir, name) }
	for bits := range uint32(0o10000) {
		name := fmt.Sprintf("%04o", bits)
		made(name, os.WriteFile(at(name), nil, 0o600))
		made(name, syscall.Chmod(at(name), bits))
	}
	made("full", os.WriteFile(at("full"), []byte("x"), 0o600))
	made("dir", os.Mkdir(at("dir"), 0o710))
	made("link", os.Symlink("full", at("link")))
	made("fifo", syscall.Mkfifo(at("fifo"), 0o640))
	made("socket", syscall.Mknod(at("socket"), syscall.S_IFSOCK|0o755, 0))
	made("/dev/null", nil)
	if os.Geteuid() == 0 {
		if err := syscall.Mknod(at("block"), syscall.S_IFBLK|0o660, 7<<8); err == nil {
			// containers may forbid block devices
			names = append(names, "block")
		}
	}
	cmd := exec.Command(tool, append([]string{"-c", "%n %A %F", "--"}, names...)...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "LC_ALL=C")
	want, err := cmd.Output()
	if err != nil {
		t.Fatalf("cmd.Output: %v", err)
	}
	var got strings.Builder
	for _, name := range names {
		path := name
		if !filepath.IsAbs(path) {
			path = at(name)
		}
		fi, err := os.Lstat(path)
		if err != nil {
			t.Fatalf("os.Lstat: %v", err)
		}
		fmt.Fprintf(&got, "%s %s %s\n", name, ModeString(fi.Mode()), FileType(fi.Mode(), fi.Size()))
	}
	diffLines(t, "stat", got.String(), string(want))
}

// Type names for programs do not depend on the size, unlike stat(1)'s names.
func TestTypeNames(t *testing.T) {
	for m, want := range map[fs.FileMode]string{0o644: "regular file", fs.ModeDir | 0o755: "directory", fs.ModeSymlink: "symbolic link", fs.ModeNamedPipe: "FIFO",
		fs.ModeSocket: "socket", fs.ModeDevice: "block device", fs.ModeDevice | fs.ModeCharDevice: "character device", fs.ModeIrregular: "file of unknown type"} {
		if got := TypeName(m); got != want {
			t.Errorf("%v: %q, want %q", m, got, want)
		}
	}
}
