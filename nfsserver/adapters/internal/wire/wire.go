// Package wire exports a tree to a client of this module, for tests.
package wire

import (
	"context"
	"log/slog"
	"testing"

	"github.com/nfsrdma/nfsrdma/nfsclient"
	"github.com/nfsrdma/nfsrdma/nfsserver"
)

// Mount serves a tree over TCP, and returns it as a client sees it. The end of the test closes all.
func Mount(t testing.TB, tree nfsserver.FS) *nfsclient.FS {
	t.Helper()
	self := nfsserver.Self()
	server, err := nfsserver.New(nfsserver.Options{
		Squash:  nfsserver.Squash{All: true, UID: self.UID, GID: self.GID, TrustLocal: true},
		Exports: []nfsserver.Export{{Name: "/tree", FS: tree}},
		Logger:  slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	service, err := server.Start(nfsserver.Listen{TCP: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	client, err := nfsclient.Dial(t.Context(), service.TCPAddr.String(), nfsclient.Options{Transport: nfsclient.TCP})
	if err != nil {
		t.Fatal(err)
	}
	export, err := client.Mount(t.Context(), "/tree")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		client.Close()
		service.Shutdown(context.Background())
		if err := server.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return export
}

// NewDir makes a directory in an export, and returns it as an export of its own.
func NewDir(t testing.TB, export *nfsclient.FS, name string) *nfsclient.FS {
	t.Helper()
	if err := export.Mkdir(t.Context(), name, 0o755); err != nil {
		t.Fatal(err)
	}
	sub, err := export.Sub(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	return sub
}
