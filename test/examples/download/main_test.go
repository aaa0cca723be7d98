// The README's example of the client library, run over both transports.

package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/nfsrdma/nfsrdma/nfsclient"
	"github.com/nfsrdma/nfsrdma/nfsserver"
	"github.com/nfsrdma/nfsrdma/nfsserver/memfs"
)

func TestDownload(t *testing.T) {
	me := nfsserver.Squash{All: true, UID: uint32(os.Geteuid()), GID: uint32(os.Getegid())}
	tree := memfs.New(memfs.Options{UID: me.UID, GID: me.GID})
	server, err := nfsserver.New(nfsserver.Options{Squash: me, Exports: []nfsserver.Export{{Name: "/share", FS: tree}}})
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	service, err := server.Start(nfsserver.Listen{TCP: "127.0.0.1:0", RDMA: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	defer service.Shutdown(t.Context())
	const want = "hello"
	for _, url := range []string{"nfsrdma://" + service.RDMAAddr.String() + "/share", "nfs://" + service.TCPAddr.String() + "/share"} {
		upload(t, url, want)
		dir := filepath.Join(t.TempDir(), "copy")
		if err := download(t.Context(), url, dir); err != nil {
			t.Fatalf("%s: %v", url, err)
		}
		got, err := os.ReadFile(filepath.Join(dir, "deep", "file"))
		if err != nil {
			t.Fatalf("%s: %v", url, err)
		}
		if string(got) != want {
			t.Errorf("%s: the copy holds %q, want %q", url, got, want)
		}
		below := filepath.Join(t.TempDir(), "below")
		if err := download(t.Context(), url+"/deep", below); err != nil {
			t.Fatalf("%s/deep: %v", url, err)
		}
		if got, err = os.ReadFile(filepath.Join(below, "file")); err != nil || string(got) != want {
			t.Errorf("%s/deep: the copy holds %q, %v, want %q", url, got, err, want)
		}
	}
	if err := download(t.Context(), "nowhere", t.TempDir()); err == nil {
		t.Error("a target without a host was taken")
	}
}

// upload makes the file of the test, as another client would.
func upload(t *testing.T, url, content string) {
	t.Helper()
	target, err := nfsclient.ParseTarget(url)
	if err != nil {
		t.Fatal(err)
	}
	tree, _, err := nfsclient.Open(t.Context(), target, nfsclient.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer tree.Client().Close()
	if err := tree.MkdirAll(t.Context(), "deep", 0o755); err != nil {
		t.Fatal(err)
	}
	f, err := tree.Create(t.Context(), "deep/file", 0o644)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.Write([]byte(content)); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}
