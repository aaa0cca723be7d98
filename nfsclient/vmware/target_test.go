// A program for go-nfs-client, over RDMA and over TCP.

package vmware_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"io"
	"net"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/nfsrdma/nfsrdma/nfsclient"
	"github.com/nfsrdma/nfsrdma/nfsclient/vmware"
	"github.com/nfsrdma/nfsrdma/nfsserver"
	"github.com/nfsrdma/nfsrdma/nfsserver/memfs"
	"github.com/nfsrdma/nfsrdma/rnic"
	"github.com/nfsrdma/nfsrdma/rnic/iwarp"
	"github.com/nfsrdma/nfsrdma/transport"
	"github.com/vmware/go-nfs-client/nfs"
)

// serve exports an empty tree as /v and returns a URL for each transport.
func serve(t *testing.T) []string {
	t.Helper()
	uid, gid := uint32(os.Geteuid()), uint32(os.Getegid())
	srv, err := nfsserver.New(nfsserver.Options{
		Exports: []nfsserver.Export{{Name: "/v", FS: memfs.New(memfs.Options{UID: uid, GID: gid})}},
		Squash:  nfsserver.Squash{All: true, UID: uid, GID: gid},
	})
	if err != nil {
		t.Fatalf("nfsserver.New: %v", err)
	}
	rpc := transport.NewServer(transport.ServerConfig{}, srv.Programs()...)
	dev := iwarp.Open(rnic.DeviceConfig{})
	rl, err := dev.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("listen: %v", err)
	}
	tl, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("listen: %v", err)
	}
	done := make(chan struct{}, 2)
	go func() { rpc.ServeRDMA(dev, rl); done <- struct{}{} }()
	go func() { rpc.ServeTCP(tl); done <- struct{}{} }()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		rpc.Shutdown(ctx)
		<-done
		<-done
		srv.Close()
	})
	return []string{"nfsrdma://" + rl.Addr().String(), "nfs://" + tl.Addr().String()}
}

func TestProgramOfGoNFSClient(t *testing.T) {
	for _, url := range serve(t) {
		t.Run(url[:7], func(t *testing.T) {
			m, err := vmware.DialMount(t.Context(), url, nfsclient.Options{})
			if err != nil {
				t.Fatalf("dial mount: %v", err)
			}
			defer m.Close()
			v, err := m.Mount("/v")
			if err != nil {
				t.Fatalf("mount: %v", err)
			}
			defer v.Close()
			program(t, v)
			if err := m.Unmount(); err != nil {
				t.Errorf("unmount: %v", err)
			}
		})
	}
}

// program makes the calls that programs for go-nfs-client usually make.
func program(t *testing.T, v *vmware.Target) {
	info, err := v.FSInfo()
	if err != nil {
		t.Fatalf("FSInfo: %v", err)
	}
	if info.RTMax == 0 || info.WTMax == 0 {
		t.Fatalf("FSInfo: %+v, want sizes", info)
	}
	for _, d := range []string{"dir", "dir/a", "dir/a/b"} {
		if _, err := v.Mkdir(d, 0o775); err != nil {
			t.Fatalf("mkdir: %v", err)
		}
		if _, err := v.Mkdir(d, 0o775); !os.IsExist(err) {
			t.Fatalf("second mkdir: %v", err)
		}
	}
	for _, n := range []int{0, 7, 10 << 20} {
		file(t, v, "dir/a/file", n)
		if err := v.RemoveAll("dir/a/file"); !nfs.IsNotDirError(err) {
			t.Errorf("RemoveAll of a file: %v", err)
		}
		if err := v.Remove("dir/a/file"); err != nil {
			t.Fatalf("remove: %v", err)
		}
	}
	if _, _, err := v.Lookup("dir/a/file"); !os.IsNotExist(err) {
		t.Errorf("Lookup of what was removed: %v", err)
	}
	for _, f := range []string{"dir/one", "dir/a/two", "dir/a/b/three"} {
		file(t, v, f, 10)
	}
	list, err := v.ReadDirPlus("dir")
	if err != nil {
		t.Fatalf("read dir plus: %v", err)
	}
	var names []string
	for _, e := range list {
		names = append(names, e.Name())
		if e.IsDir() != (e.Name() == "a") {
			t.Errorf("%s: IsDir %v", e.Name(), e.IsDir())
		}
	}
	if slices.Sort(names); !slices.Equal(names, []string{"a", "one"}) {
		t.Errorf("names %q", names)
	}
	if err := v.RmDir("dir"); !nfs.IsNotEmptyError(err) {
		t.Errorf("RmDir of a full directory: %v", err)
	}
	if err := v.RemoveAll("dir"); err != nil {
		t.Fatalf("remove all: %v", err)
	}
	if err := v.RemoveAll("dir"); err != nil {
		t.Errorf("RemoveAll of nothing: %v", err)
	}
}

func file(t *testing.T, v *vmware.Target, name string, n int) {
	t.Helper()
	want := make([]byte, n)
	_, _ = rand.Read(want)
	f, err := v.OpenFile(name, 0o640)
	if err != nil {
		t.Fatalf("open file: %v", err)
	}
	if _, err := io.Copy(f, bytes.NewReader(want)); err != nil {
		t.Fatalf("copy: %v", err)
	}
	if err := f.Close(); err != nil {
		t.Fatalf("close: %v", err)
	}
	fi, _, err := v.Lookup(name)
	if err != nil {
		t.Fatalf("lookup of %s: %v", name, err)
	}
	if fi.Size() != int64(n) || fi.Mode() != 0o640 {
		t.Fatalf("%s: %d bytes, mode %v, want %d and 0640", name, fi.Size(), fi.Mode(), n)
	}
	if f, err = v.Open(name); err != nil {
		t.Fatalf("open: %v", err)
	}
	defer f.Close()
	got, err := io.ReadAll(f)
	if err != nil || !bytes.Equal(got, want) {
		t.Fatalf("%s: read %d bytes of %d, %v", name, len(got), n, err)
	}
}
