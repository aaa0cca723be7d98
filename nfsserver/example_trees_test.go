// Examples of trees chosen for each user, and of exports made and removed while clients use them.

package nfsserver_test

import (
	"context"
	"fmt"
	"io/fs"
	"log"
	"os"
	"path/filepath"
	"strconv"

	"github.com/nfsrdma/nfsrdma/nfsclient"
	"github.com/nfsrdma/nfsrdma/nfsserver"
	"github.com/nfsrdma/nfsrdma/nfsserver/memfs"
	"github.com/nfsrdma/nfsrdma/nfsserver/osfs"
	"github.com/nfsrdma/nfsrdma/transport"
	"github.com/nfsrdma/nfsrdma/xdr/oncrpc"
)

// Homes is a tree for each user: the directory with the user's number.
type homes struct{ dir string }

// Mount gives each user their own tree, whose number is the user's.
func (h homes) Mount(c nfsserver.Caller, path string) (tree uint64, rest string, err error) {
	return uint64(c.UID), path, h.May(c, uint64(c.UID))
}

// May keeps users out of the trees of others, and callers without a user out of all.
func (homes) May(c nfsserver.Caller, tree uint64) error {
	if c.UID == nfsserver.Nobody || uint64(c.UID) != tree {
		return fs.ErrPermission
	}
	return nil
}

// Open is called again after a restart, or if the tree was not used for long.
func (h homes) Open(_ nfsserver.Caller, tree uint64) (nfsserver.FS, error) {
	return osfs.New(filepath.Join(h.dir, strconv.FormatUint(tree, 10)), osfs.Options{})
}

// Serve a tree of their own to each user, by one name.
func ExampleTrees() {
	dir, err := os.MkdirTemp("", "homes-")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	for uid, text := range map[string]string{"1001": "files of Ada", "1002": "files of Grace"} {
		if err := os.Mkdir(filepath.Join(dir, uid), 0o755); err != nil {
			log.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, uid, "about"), []byte(text), 0o644); err != nil {
			log.Fatal(err)
		}
	}
	self := nfsserver.Self()
	server, err := nfsserver.New(nfsserver.Options{
		// Callers of this machine claim any user. Without TrustLocal the kernel identifies them.
		Squash:  nfsserver.Squash{All: true, UID: self.UID, GID: self.GID, TrustLocal: true},
		Exports: []nfsserver.Export{{Name: "/home", Trees: homes{dir}}},
	})
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()
	service, err := server.Start(nfsserver.Listen{TCP: "127.0.0.1:0"})
	if err != nil {
		log.Fatal(err)
	}
	ctx := context.Background()
	defer service.Shutdown(ctx)

	for _, uid := range []uint32{1001, 1002, 1003} {
		user := transport.Cred{Flavor: oncrpc.FlavorSys, UID: uid, GID: uid}
		client, err := nfsclient.Dial(ctx, service.TCPAddr.String(), nfsclient.Options{Transport: nfsclient.TCP, Cred: &user})
		if err != nil {
			log.Fatal(err)
		}
		defer client.Close()
		home, err := client.Mount(ctx, "/home")
		if err != nil {
			fmt.Println(err)
			continue
		}
		about, err := home.ReadFile(ctx, "about")
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("%d sees: %s\n", uid, about)
	}
	// Output:
	// 1001 sees: files of Ada
	// 1002 sees: files of Grace
	// mount /home: no such file or directory (MNT3ERR_NOENT)
}

// Make and remove exports while clients use others.
func ExampleService_Replace() {
	server, err := nfsserver.New(nfsserver.Options{Exports: []nfsserver.Export{{Name: "/first", FS: memfs.New(memfs.Options{Mode: 0o777})}}})
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()
	service, err := server.Start(nfsserver.Listen{TCP: "127.0.0.1:0"})
	if err != nil {
		log.Fatal(err)
	}
	ctx := context.Background()
	defer service.Shutdown(ctx)
	client, err := nfsclient.Dial(ctx, service.TCPAddr.String(), nfsclient.Options{Transport: nfsclient.TCP})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	first, err := client.Mount(ctx, "/first")
	if err != nil {
		log.Fatal(err)
	}

	// /first stays as it is, because its FS is not given again. /second is new.
	err = service.Replace([]nfsserver.Export{{Name: "/first"}, {Name: "/second", FS: memfs.New(memfs.Options{Mode: 0o777})}})
	if err != nil {
		log.Fatal(err)
	}
	second, err := client.Mount(ctx, "/second")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("first:", first.WriteFile(ctx, "a", []byte("a"), 0o644))
	fmt.Println("second:", second.WriteFile(ctx, "b", []byte("b"), 0o644))

	// /first is removed while it is mounted. Its FS is closed after the last call.
	if err := service.Replace([]nfsserver.Export{{Name: "/second"}}); err != nil {
		log.Fatal(err)
	}
	_, err = first.ReadFile(ctx, "a")
	fmt.Println("first:", err)
	// Output:
	// first: <nil>
	// second: <nil>
	// first: open a: stale file handle (LOOKUP: NFS3ERR_STALE)
}
