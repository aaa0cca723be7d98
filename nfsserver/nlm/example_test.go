// An example of use: a server of files with locks.

package nlm_test

import (
	"context"
	"fmt"
	"log"

	"github.com/nfsrdma/nfsrdma/nfsclient"
	"github.com/nfsrdma/nfsrdma/nfsserver"
	"github.com/nfsrdma/nfsrdma/nfsserver/memfs"
	"github.com/nfsrdma/nfsrdma/nfsserver/nlm"
)

// Serve locks beside the files, on the same port.
func Example() {
	ctx := context.Background()
	tree := memfs.New(memfs.Options{})
	server, err := nfsserver.New(nfsserver.Options{Exports: []nfsserver.Export{{Name: "/share", FS: tree}}})
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()
	// With a StateDir clients get their locks back after a restart.
	locks, err := nlm.New(server, nlm.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer locks.Close()
	service, err := server.Start(nfsserver.Listen{
		RDMA:     "127.0.0.1:0",
		Programs: locks.Programs(),
	})
	if err != nil {
		log.Fatal(err)
	}
	defer service.Shutdown(ctx)

	client, err := nfsclient.Dial(ctx, service.RDMAAddr.String(), nfsclient.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	fmt.Println("NULL of the lock manager:", client.CallLockManager(ctx, 0, nil, nil))
	// Output: NULL of the lock manager: <nil>
}
