// Command readonly serves a ZIP archive over RDMA and TCP: an example of a custom file tree.
package main

import (
	"archive/zip"
	"context"
	"fmt"
	"io/fs"
	"os"
	"os/signal"

	"github.com/nfsrdma/nfsrdma/nfsserver"
)

// serve exports fsys as /archive until ctx ends. ready is called when clients can connect.
func serve(ctx context.Context, fsys fs.FS, at nfsserver.Listen, ready func(*nfsserver.Service)) error {
	files, err := newTree(fsys)
	if err != nil {
		return err
	}
	server, err := nfsserver.New(nfsserver.Options{
		// all callers are one user
		Squash:  nfsserver.Squash{All: true, UID: nfsserver.Nobody, GID: nfsserver.Nobody},
		Exports: []nfsserver.Export{{Name: "/archive", FS: files, ReadOnly: true}},
	})
	if err != nil {
		return err
	}
	defer server.Close()
	service, err := server.Start(at)
	if err != nil {
		return err
	}
	ready(service)
	select {
	case <-ctx.Done():
	case err = <-service.Failed():
	}
	service.Shutdown(context.WithoutCancel(ctx)) // waits for running calls
	return err
}

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: readonly ARCHIVE.zip")
		os.Exit(2)
	}
	archive, err := zip.OpenReader(os.Args[1])
	if err == nil {
		ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
		defer stop()
		err = serve(ctx, archive, nfsserver.Listen{RDMA: "127.0.0.1:20049", TCP: "127.0.0.1:2049"}, func(s *nfsserver.Service) {
			fmt.Printf("nfsrdma ls nfsrdma://%s/archive\n", s.RDMAAddr)
		})
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "readonly:", err)
		os.Exit(1)
	}
}
