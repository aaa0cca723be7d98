// The read-only tree, read and refused over both transports.

package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"syscall"
	"testing"
	"testing/fstest"

	"github.com/nfsrdma/nfsrdma/nfsclient"
	"github.com/nfsrdma/nfsrdma/nfsserver"
)

func TestReadOnlyTree(t *testing.T) {
	files := fstest.MapFS{"docs/one.txt": {Data: []byte("one")}, "docs/deep/two.txt": {Data: []byte("two")}, "empty": {}}
	for i := range 300 { // which is more than one reply of READDIR holds
		files[fmt.Sprintf("many/file%03d", i)] = &fstest.MapFile{Data: []byte("x")}
	}
	ctx, stop := context.WithCancel(t.Context())
	started, ended := make(chan *nfsserver.Service, 1), make(chan error, 1)
	go func() {
		ended <- serve(ctx, files, nfsserver.Listen{RDMA: "127.0.0.1:0", TCP: "127.0.0.1:0"}, func(s *nfsserver.Service) { started <- s })
	}()
	select {
	case s := <-started:
		for _, url := range []string{"nfsrdma://" + s.RDMAAddr.String(), "nfs://" + s.TCPAddr.String()} {
			read(t, url+"/archive", files)
		}
	case err := <-ended:
		t.Fatal(err)
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// read compares a client's view with the served files, and changes nothing.
func read(t *testing.T, url string, files fstest.MapFS) {
	t.Helper()
	target, err := nfsclient.ParseTarget(url)
	if err != nil {
		t.Fatal(err)
	}
	archive, _, err := nfsclient.Open(t.Context(), target, nfsclient.Options{})
	if err != nil {
		t.Fatalf("%s: %v", url, err)
	}
	defer archive.Client().Close()
	seen := 0
	err = fs.WalkDir(archive.IO(t.Context()), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		seen++
		got, err := archive.ReadFile(t.Context(), name)
		if err != nil {
			return err
		}
		if want := files[name]; want == nil || string(got) != string(want.Data) {
			t.Errorf("%s: %s holds %q, want that of %v", url, name, got, want)
		}
		return nil
	})
	if err != nil {
		t.Errorf("%s: %v", url, err)
	}
	if seen != len(files) {
		t.Errorf("%s: %d files, want %d", url, seen, len(files))
	}
	if _, err := archive.ReadFile(t.Context(), "docs/../empty"); err != nil {
		t.Errorf("%s: %v", url, err)
	}
	if _, err := archive.ReadFile(t.Context(), "missing"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%s: a missing file: %v, want %v", url, err, fs.ErrNotExist)
	}
	if err := archive.WriteFile(t.Context(), "new", nil, 0o644); !errors.Is(err, syscall.EROFS) {
		t.Errorf("%s: a new file: %v, want %v", url, err, syscall.EROFS)
	}
	if err := archive.Remove(t.Context(), "empty"); !errors.Is(err, syscall.EROFS) {
		t.Errorf("%s: a removal: %v, want %v", url, err, syscall.EROFS)
	}
}
