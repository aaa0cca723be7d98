// New volumes whose metadata is in Redis.

package juicefs_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/juicedata/juicefs/pkg/meta"
	"github.com/nfsrdma/nfsrdma/nfsserver"
	"github.com/nfsrdma/nfsrdma/nfsserver/juicefs"
	"github.com/nfsrdma/nfsrdma/nfsserver/juicefs/juicefstest"
)

// TestNewVolumes: a volume is made and keeps its files. Only a volume named by Replace is replaced.
func TestNewVolumes(t *testing.T) {
	_, url := juicefstest.Redis(t)
	bucket := t.TempDir()
	n := juicefs.New{Meta: url, Name: "one", Storage: "file", Bucket: bucket, AccessKey: "joe", SecretKey: "very secret", TrashDays: 2, Capacity: 1 << 30}
	if err := n.Make(t.Context()); err != nil {
		t.Fatalf("Make: %v", err)
	}
	m := meta.NewClient(url, meta.DefaultConf())
	format, err := m.Load(true)
	if err != nil {
		t.Fatalf("Load: %v", err)
	}
	if format.Name != "one" || !format.EnableACL {
		t.Errorf("name %q, ACLs %v, want one with ACLs", format.Name, format.EnableACL)
	}
	if format.TrashDays != 2 || format.Capacity != 1<<30 {
		t.Errorf("%d days of trash, %d bytes, want 2 and %d", format.TrashDays, format.Capacity, 1<<30)
	}
	if !format.KeyEncrypted || strings.Contains(format.SecretKey, "secret") {
		t.Errorf("the secret key is kept as %q", format.SecretKey)
	}
	if err := m.Shutdown(); err != nil {
		t.Fatalf("Shutdown: %v", err)
	}
	if got := readBack(t, url, "content"); got != "content" {
		t.Errorf("read %q, want content", got)
	}

	again := n
	again.Name = "two"
	for _, replace := range []string{"", "two", "on"} {
		again.Replace = replace
		if err := again.Make(t.Context()); err == nil || !strings.Contains(err.Error(), "has a volume already, one: it is left as it is") {
			t.Errorf("a second volume, to replace %q: %v", replace, err)
		}
	}
	if got := readBack(t, url, ""); got != "content" {
		t.Errorf("read %q after a second volume was refused, want content", got)
	}
	again.Replace, again.Name = "one", "one"
	if err := again.Make(t.Context()); err == nil || !strings.Contains(err.Error(), "it has objects of this name") {
		t.Errorf("a volume over objects of another: %v", err)
	}
	again.Name = "two"
	if err := again.Make(t.Context()); err != nil {
		t.Errorf("a volume that replaces the named one: %v", err)
	}
	if got := readBack(t, url, ""); got != "" {
		t.Errorf("read %q from the replaced volume", got)
	}
}

// readBack writes text to a file in the volume, unless text is empty. It returns the file's
// content, or "" if the file does not exist.
func readBack(t *testing.T, url, text string) string {
	t.Helper()
	f, err := juicefs.Open(juicefs.Options{Meta: url})
	if err != nil {
		t.Fatalf("juicefs.Open: %v", err)
	}
	defer f.Close()
	ref, _, err := f.Lookup(nfsserver.Self(), f.Root(), "file")
	if err != nil && text != "" {
		ref, _, err = f.Create(nfsserver.Self(), f.Root(), "file", &nfsserver.SetAttr{})
	}
	if err != nil {
		return ""
	}
	if text != "" {
		if _, err := f.WriteAt(nfsserver.Self(), ref, []byte(text), 0); err != nil {
			t.Fatalf("WriteAt: %v", err)
		}
		if err := f.Sync(ref, false); err != nil {
			t.Fatalf("Sync: %v", err)
		}
	}
	p := make([]byte, 100)
	k, err := f.ReadAt(nfsserver.Self(), ref, p, 0)
	if err != nil {
		t.Fatalf("ReadAt: %v", err)
	}
	return string(p[:k])
}

// TestNoVolumeWhereItCannotBeUsed: with invalid settings or object storage the metadata service
// stays empty.
func TestNoVolumeWhereItCannotBeUsed(t *testing.T) {
	_, url := juicefstest.Redis(t)
	good := juicefs.New{Meta: url, Name: "vol", Storage: "file", Bucket: t.TempDir()}
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatalf("os.WriteFile: %v", err)
	}
	for want, change := range map[string]func(*juicefs.New){
		`volume name "V"`:                func(n *juicefs.New) { n.Name = "V" },
		"an object storage and a bucket": func(n *juicefs.New) { n.Bucket = "" },
		"storage mem keeps nothing":      func(n *juicefs.New) { n.Storage = "mem" },
		`compression "rar" is not known`: func(n *juicefs.New) { n.Compression = "rar" },
		"-1 days of trash":               func(n *juicefs.New) { n.TrashDays = -1 },
		"memkv keeps nothing":            func(n *juicefs.New) { n.Meta = "memkv://x" },
		"want one such as redis":         func(n *juicefs.New) { n.Meta = "nothing" },
		"object storage: ":               func(n *juicefs.New) { n.Bucket = filepath.Join(file, "below") },
		"invalid storage":                func(n *juicefs.New) { n.Storage = "floppy" },
		"has no volume old to be":        func(n *juicefs.New) { n.Replace = "old" },
	} {
		n := good
		change(&n)
		if err := n.Make(t.Context()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
	if err := good.Make(t.Context()); err != nil {
		t.Errorf("the service is not empty after the refused volumes: %v", err)
	}
}
