// go-nfs's server and this project's, over trees of go-billy, with this project's client.

package compare

import (
	"context"
	"fmt"
	"io"
	"os"
	"testing"
	"time"

	"github.com/nfsrdma/nfsrdma/nfsclient"
)

// BenchmarkServers compares the servers, over a tree in memory and over a directory.
func BenchmarkServers(b *testing.B) {
	for _, tree := range []string{"memfs", "osfs"} {
		few := byClient(b, "go-nfs", dial(b, process(b, goNFS, tree, fewHandles), "/"))
		few.list = byClient(b, "go-nfs", dial(b, process(b, goNFS, tree, manyHandles), "/")).list
		run(b, tree, [2]contender{few, byClient(b, "nfsserver", dial(b, process(b, ours, tree, 0), "/tree"))})
	}
}

// Sizes of go-nfs's cache of handles: as in its examples, and large enough for a listing. With a
// larger cache, go-nfs takes longer for a call.
const (
	fewHandles  = 1024
	manyHandles = 2 * listed
)

// dial mounts an export over TCP.
func dial(b *testing.B, addr, export string) *nfsclient.FS {
	client, err := nfsclient.Dial(b.Context(), addr, nfsclient.Options{Transport: nfsclient.TCP})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { client.Close() })
	mounted, err := client.Mount(b.Context(), export)
	if err != nil {
		b.Fatal(err)
	}
	b.Logf("%s%s: READs of %d and WRITEs of %d KiB", addr, export, mounted.MaxRead()>>10, mounted.MaxWrite()>>10)
	return mounted
}

// byClient returns the workloads done with this project's client.
func byClient(b *testing.B, name string, f *nfsclient.FS) contender {
	ctx, data := b.Context(), make([]byte, fileSize)
	return contender{
		name: name,
		list: func() time.Duration {
			return timed(b, func() error {
				entries, err := f.ReadDir(ctx, "many")
				if err == nil && len(entries) != listed {
					err = fmt.Errorf("%s: %d entries, want %d", name, len(entries), listed)
				}
				return err
			})
		},
		install: func() time.Duration {
			mkdir := func(path string) error { return f.Mkdir(ctx, path, 0o755) }
			took := timed(b, func() error {
				return eachFile("installed", mkdir, func(path string) error { return install(ctx, f, path, data) })
			})
			if err := f.RemoveAll(ctx, "installed"); err != nil {
				b.Fatal(err)
			}
			return took
		},
		read: func() time.Duration {
			return timed(b, func() error {
				file, err := f.Open(ctx, "stream")
				if err != nil {
					return err
				}
				defer file.Close()
				return complete(io.Copy(io.Discard, file))
			})
		},
	}
}

// install creates, writes, closes and stats one file.
func install(ctx context.Context, f *nfsclient.FS, path string, data []byte) error {
	// O_TRUNC would set a size, with which go-nfs cannot create a file in memfs.
	file, err := f.OpenFile(ctx, path, os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	if _, err := file.Write(data); err != nil {
		return err
	}
	if err := file.Close(); err != nil {
		return err
	}
	info, err := f.Stat(ctx, path)
	if err == nil && info.Size() != fileSize {
		err = fmt.Errorf("%s has %d bytes", path, info.Size())
	}
	return err
}

// complete checks how long a stream was.
func complete(n int64, err error) error {
	if err == nil && n != streamSize {
		err = fmt.Errorf("read %d bytes, want %d", n, streamSize)
	}
	return err
}
