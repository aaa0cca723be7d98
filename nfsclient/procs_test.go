// Every procedure of NFSv3 as a method of Client, and directories page by page.

package nfsclient_test

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/nfsrdma/nfsrdma/nfsclient"
	"github.com/nfsrdma/nfsrdma/test/must"
	"github.com/nfsrdma/nfsrdma/xdr/nfs3"
)

func TestEveryProcedureIsAMethod(t *testing.T) {
	client := reflect.TypeFor[*nfsclient.Client]()
	for i := range nfs3.Bindings {
		name := nfs3.Bindings[i].Name
		method := name[:1] + strings.ToLower(name[1:])
		if _, ok := client.MethodByName(method); !ok {
			t.Errorf("%s is no method of Client", method)
		}
	}
}

// Both listing procedures with small pages: each name comes once, and only the last page has EOF.
// READDIRPLUS returns the same attributes and handles as LOOKUP.
func TestDirectoryPages(t *testing.T) {
	each(t, func(t *testing.T, fsys *nfsclient.FS) {
		ctx, c := t.Context(), fsys.Client()
		const files = 40
		want := []string{".", ".."}
		for i := range files {
			name := fmt.Sprintf("file %03d", i)
			must.Succeed(t, fsys.WriteFile(ctx, name, []byte(name), 0o600))
			want = append(want, name)
		}
		root, err := fsys.Lstat(ctx, "/")
		must.Succeed(t, err)
		dir := root.FH
		var plain, plus []string
		pages := 0
		for at := (nfsclient.DirPage{}); !at.EOF; pages++ {
			at, err = c.Readdir(ctx, dir, at, 512, func(e *nfs3.Entry) { plain = append(plain, string(e.Name)) })
			must.Succeed(t, err)
			if !at.Attr.Present || at.Attr.Attr.Type != nfs3.TypeDir {
				t.Errorf("attributes of the directory: %+v", at.Attr)
			}
		}
		for at := (nfsclient.DirPage{}); !at.EOF; pages++ {
			at, err = c.Readdirplus(ctx, dir, at, 512, 2048, func(e *nfs3.EntryPlus) {
				plus = append(plus, string(e.Name))
				if !strings.HasPrefix(string(e.Name), "file") {
					return
				}
				if !e.FH.Present || !e.Attr.Present {
					t.Errorf("%s: handle %v, attributes %v, want both", e.Name, e.FH.Present, e.Attr.Present)
				}
				if size := e.Attr.Attr.Size; size != uint64(len(e.Name)) {
					t.Errorf("%s: %d bytes, want %d", e.Name, size, len(e.Name))
				}
			})
			must.Succeed(t, err)
		}
		if slices.Sort(plain); !slices.Equal(plain, want) {
			t.Errorf("READDIR: %q", plain)
		}
		if slices.Sort(plus); !slices.Equal(plus, want) {
			t.Errorf("READDIRPLUS: %q", plus)
		}
		if pages < 6 {
			t.Errorf("%d pages: want several by each procedure", pages)
		}
		n, err := fsys.Lstat(ctx, "file 001")
		must.Succeed(t, err)
		_, err = c.Readdir(ctx, n.FH, nfsclient.DirPage{}, 512, func(*nfs3.Entry) { t.Error("an entry of a file") })
		if !errors.Is(err, nfs3.ErrNotDir) {
			t.Errorf("READDIR of a file: %v", err)
		}
	})
}
