// An example: a volume in a directory, served.

package juicefs_test

import (
	"context"
	"fmt"
	"log"
	"os"

	"github.com/nfsrdma/nfsrdma/nfsclient"
	"github.com/nfsrdma/nfsrdma/nfsserver"
	"github.com/nfsrdma/nfsrdma/nfsserver/juicefs"
)

// Make a volume in a directory, serve it over RDMA, and use it.
func Example() {
	dir, err := os.MkdirTemp("", "volume-")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	// All callers act as this user.
	me := nfsserver.Squash{All: true, UID: uint32(os.Geteuid()), GID: uint32(os.Getegid())}
	// The URL of a volume made by `juicefs format` is its metadata service's.
	url, err := juicefs.Local{Dir: dir, UID: me.UID, GID: me.GID, TrashDays: 1, ACL: true}.Make()
	if err != nil {
		log.Fatal(err)
	}
	vol, err := juicefs.Open(juicefs.Options{Meta: url})
	if err != nil {
		log.Fatal(err)
	}
	server, err := nfsserver.New(nfsserver.Options{
		Squash:  me,
		Exports: []nfsserver.Export{{Name: "/vol", FS: vol}},
	})
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close() // and the volume
	service, err := server.Start(nfsserver.Listen{RDMA: "127.0.0.1:0"})
	if err != nil {
		log.Fatal(err)
	}
	ctx := context.Background()
	defer service.Shutdown(ctx)

	client, err := nfsclient.Dial(ctx, service.RDMAAddr.String(), nfsclient.Options{Transport: nfsclient.RDMA})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	fs, err := client.Mount(ctx, "/vol")
	if err != nil {
		log.Fatal(err)
	}
	if err := fs.WriteFile(ctx, "greeting", []byte("hello from the volume"), 0o644); err != nil {
		log.Fatal(err)
	}
	b, err := fs.ReadFile(ctx, "greeting")
	fmt.Println(string(b), err)
	// Output: hello from the volume <nil>
}
