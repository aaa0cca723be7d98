// go-nfs-client and this project's client, with this project's server over a directory.

package compare

import (
	"fmt"
	"io"
	"net"
	"testing"
	"time"

	"github.com/vmware/go-nfs-client/nfs"
	"github.com/vmware/go-nfs-client/nfs/rpc"

	"github.com/nfsrdma/nfsrdma/transport"
)

// BenchmarkClients compares the clients. go-nfs-client needs a port mapper, and so root.
func BenchmarkClients(b *testing.B) {
	addr := process(b, oursOwn, "osfs", 0)
	run(b, "osfs", [2]contender{byGoNFSClient(b, addr), byClient(b, "nfsclient", dial(b, addr, "/tree"))})
}

// mapperHost is the server's host for go-nfs-client, which queries a port mapper at port 111 on
// that host.
const mapperHost = "127.0.0.1"

// byGoNFSClient returns the workloads done with go-nfs-client.
func byGoNFSClient(b *testing.B, addr string) contender {
	target := mountGoNFS(b, addr)
	data := make([]byte, fileSize)
	return contender{
		name: "go-nfs-client",
		list: func() time.Duration {
			return timed(b, func() error {
				entries, err := target.ReadDirPlus("/many")
				if err == nil && len(entries) != listed+2 { // "." and ".." count too
					err = fmt.Errorf("%d entries, want %d", len(entries), listed+2)
				}
				return err
			})
		},
		install: func() time.Duration {
			mkdir := func(path string) error {
				_, err := target.Mkdir("/"+path, 0o755)
				return err
			}
			took := timed(b, func() error {
				return eachFile("installed", mkdir, func(path string) error { return installGoNFS(target, "/"+path, data) })
			})
			if err := target.RemoveAll("/installed"); err != nil {
				b.Fatal(err)
			}
			return took
		},
		read: func() time.Duration {
			return timed(b, func() error {
				file, err := target.Open("/stream")
				if err != nil {
					return err
				}
				defer file.Close()
				// go-nfs-client's READs are as large as the buffer; io.Copy alone would use 32 KiB.
				return complete(io.CopyBuffer(writerOnly{io.Discard}, file, make([]byte, streamBlock)))
			})
		},
	}
}

// A writerOnly hides ReadFrom, which would use a buffer of its own.
type writerOnly struct{ io.Writer }

// installGoNFS creates, writes, closes and stats one file.
func installGoNFS(target *nfs.Target, path string, data []byte) error {
	file, err := target.OpenFile(path, 0o644)
	if err != nil {
		return err
	}
	if _, err := file.Write(data); err != nil {
		return err
	}
	if err := file.Close(); err != nil {
		return err
	}
	info, _, err := target.Lookup(path)
	if err == nil && info.Size() != fileSize {
		err = fmt.Errorf("%s has %d bytes", path, info.Size())
	}
	return err
}

// mountGoNFS mounts /tree with go-nfs-client.
func mountGoNFS(b *testing.B, addr string) *nfs.Target {
	l, err := net.Listen("tcp", mapperHost+":111")
	if err != nil {
		b.Fatal(err)
	}
	server, err := net.ResolveTCPAddr("tcp", addr)
	if err != nil {
		b.Fatal(err)
	}
	getport := func(c *transport.Call) error {
		c.Res.Uint32(uint32(server.Port))
		return nil
	}
	mapper := transport.NewServer(transport.ServerConfig{}, &transport.Program{Name: "portmap", Number: 100000, Version: 2,
		Procs: []transport.Procedure{3: {Name: "GETPORT", Run: getport, Idempotent: true}}})
	go mapper.ServeTCP(l)
	b.Cleanup(func() { mapper.Shutdown(b.Context()) })
	mount, err := nfs.DialMount(mapperHost)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { mount.Close() })
	target, err := mount.Mount("/tree", rpc.NewAuthUnix("bench", 0, 0).Auth())
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { target.Close() })
	return target
}
