// An export, served to WebDAV clients.

package webdavfs_test

import (
	"context"
	"log"
	"net/http"

	"golang.org/x/net/webdav"

	"github.com/nfsrdma/nfsrdma/nfsclient"
	"github.com/nfsrdma/nfsrdma/nfsserver/adapters/webdavfs"
)

// Serve an export by HTTP and WebDAV.
func ExampleFromClient() {
	ctx := context.Background()
	client, err := nfsclient.Dial(ctx, "server.example.org", nfsclient.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	export, err := client.Mount(ctx, "/tree")
	if err != nil {
		log.Fatal(err)
	}
	handler := &webdav.Handler{FileSystem: webdavfs.FromClient(export), LockSystem: webdav.NewMemLS()}
	log.Fatal(http.ListenAndServe("127.0.0.1:8080", handler))
}
