// Afero over the wire, compared with afero's own file system in memory.

package aferofs_test

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand"
	"os"
	"testing"
	"testing/fstest"

	"github.com/spf13/afero"

	"github.com/nfsrdma/nfsrdma/nfsserver/adapters"
	"github.com/nfsrdma/nfsrdma/nfsserver/adapters/aferofs"
	"github.com/nfsrdma/nfsrdma/nfsserver/adapters/internal/wire"
	"github.com/nfsrdma/nfsrdma/test/must"
)

// kindOfError returns the error with which callers compare err.
func kindOfError(err error) string {
	for _, kind := range []error{fs.ErrNotExist, fs.ErrExist, fs.ErrPermission} {
		if errors.Is(err, kind) {
			return kind.Error()
		}
	}
	if err != nil {
		return "another error"
	}
	return ""
}

// step makes one random change to a file system, with the same random numbers it makes the same
// change.
func step(f afero.Fs, rnd *rand.Rand) (what string, err error) {
	name := func() string { return fmt.Sprintf("/d%d/f%d", rnd.Intn(3), rnd.Intn(4)) }
	dir := fmt.Sprintf("/d%d", rnd.Intn(3))
	switch a, b := name(), name(); rnd.Intn(7) {
	case 0:
		return "mkdir " + dir, f.MkdirAll(dir, 0o755)
	case 1:
		data := make([]byte, rnd.Intn(3000))
		rnd.Read(data)
		if ok, err := afero.DirExists(f, a[:3]); err != nil || !ok {
			return "write " + a, err // because MemMapFs would make the missing directory
		}
		return "write " + a, afero.WriteFile(f, a, data, 0o644)
	case 2:
		return "remove " + a, f.Remove(a)
	case 3:
		if ok, err := afero.DirExists(f, b[:3]); err != nil || !ok || a == b {
			return "rename " + a + " " + b, err
		}
		return "rename " + a + " " + b, f.Rename(a, b)
	case 4:
		return "remove all " + dir, f.RemoveAll(dir)
	case 5:
		return "chmod " + a, f.Chmod(a, fs.FileMode(0o400+rnd.Intn(0o400)))
	}
	return "append " + dir, appendTo(f, name(), rnd)
}

// appendTo writes over the end of a file, and then truncates or extends it.
func appendTo(f afero.Fs, name string, rnd *rand.Rand) error {
	file, err := f.OpenFile(name, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	_, err = file.Seek(int64(rnd.Intn(100)), io.SeekStart)
	if err == nil {
		_, err = file.WriteString("over the end")
	}
	if err == nil {
		err = file.Truncate(int64(rnd.Intn(200)))
	}
	return errors.Join(err, file.Close())
}

// content returns the names and contents in a file system as text.
func content(t *testing.T, f afero.Fs) (all string) {
	t.Helper()
	must.Succeed(t, afero.Walk(f, "/", func(path string, info fs.FileInfo, err error) error {
		if err != nil || info.IsDir() {
			all += fmt.Sprintln(path, err)
			return err
		}
		data, err := afero.ReadFile(f, path)
		all += fmt.Sprintf("%s %v %x\n", path, info.Mode(), data)
		return err
	}))
	return all
}

func TestAferoOverTheWire(t *testing.T) {
	for seed := range int64(6) {
		model := afero.NewMemMapFs()
		f := aferofs.FromClient(t.Context(), wire.Mount(t, newTree(t, afero.NewMemMapFs(), adapters.Options{})))
		one, other := rand.New(rand.NewSource(seed)), rand.New(rand.NewSource(seed))
		for range 200 {
			what, wanted := step(model, one)
			_, got := step(f, other)
			if kindOfError(got) != kindOfError(wanted) {
				t.Fatalf("%s: got %v, want %v", what, got, wanted)
			}
			if wanted != nil {
				continue // if a failed step has changed something, the next comparison shows it
			}
			if got, want := content(t, f), content(t, model); got != want {
				t.Fatalf("after %s: got\n%swant\n%s", what, got, want)
			}
		}
		must.Succeed(t, errors.Join(afero.WriteFile(f, "/last", []byte("x"), 0o644), afero.WriteFile(model, "/last", []byte("x"), 0o644)))
		if got, want := content(t, f), content(t, model); got != want {
			t.Fatalf("at the end: got\n%swant\n%s", got, want)
		}
		if err := fstest.TestFS(afero.NewIOFS(f), "last"); err != nil {
			t.Error(err)
		}
	}
}

// TestErrorsOfOS: callers that use os.IsNotExist and its like see the export's errors.
func TestErrorsOfOS(t *testing.T) {
	f := aferofs.FromClient(t.Context(), wire.Mount(t, newTree(t, afero.NewMemMapFs(), adapters.Options{})))
	if _, err := f.Open("absent"); !os.IsNotExist(err) {
		t.Errorf("Open: got %v, want an error for os.IsNotExist", err)
	}
	must.Succeed(t, f.Mkdir("dir", 0o700))
	if err := f.Mkdir("dir", 0o700); !os.IsExist(err) {
		t.Errorf("Mkdir: got %v, want an error for os.IsExist", err)
	}
	if _, err := f.OpenFile("dir", os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600); !os.IsExist(err) {
		t.Errorf("OpenFile with O_EXCL: got %v, want an error for os.IsExist", err)
	}
}
