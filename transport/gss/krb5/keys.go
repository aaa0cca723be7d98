// The keys of an acceptor: a keytab file that is read again when it changes.

package krb5

import (
	"fmt"
	"os"
	"strings"
	"sync"
	"time"
)

// rereadInterval limits how often unknown keys cause the keytab to be read.
const rereadInterval = time.Second

// keys are a keytab file's usable entries. They are read again when the file has changed or was
// replaced.
type keys struct {
	path      string
	principal name // only this principal's keys are used; without components: all

	mu      sync.Mutex
	entries []KeytabEntry // replaced, never changed
	info    os.FileInfo   // the file's when it was read
	readAt  time.Time
}

// openKeys reads the keytab once. A keytab without a usable key is an error.
func openKeys(path, principal string) (*keys, error) {
	k := &keys{path: path}
	if principal != "" {
		k.principal = parseName(principal, "")
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if err := k.read(); err != nil {
		return nil, err
	}
	return k, nil
}

// read replaces the entries. mu is held. An unreadable file leaves them as they are.
func (k *keys) read() error {
	k.readAt = time.Now()
	info, err := os.Stat(k.path)
	if err != nil {
		return fmt.Errorf("krb5: keytab: %w", err)
	}
	all, err := ReadKeytab(k.path)
	if err != nil {
		return err
	}
	var usable []KeytabEntry
	for _, e := range all {
		if _, err := newKey(e.Enctype, e.value); err == nil && k.wants(e.name) {
			usable = append(usable, e)
		}
	}
	if len(usable) == 0 {
		return fmt.Errorf("krb5: keytab %s has no key of %s with a supported enctype (%s)", k.path, k.wanted(), enctypeNames())
	}
	k.entries, k.info = usable, info
	return nil
}

// wants reports whether a principal's keys are used. The configured principal may lack a realm.
func (k *keys) wants(n name) bool {
	if len(k.principal.parts) == 0 {
		return true
	}
	want := k.principal
	if want.realm == "" {
		want.realm = n.realm
	}
	return want.same(n)
}

func (k *keys) wanted() string {
	if len(k.principal.parts) == 0 {
		return "any principal"
	}
	return strings.TrimSuffix(k.principal.String(), "@")
}

// current returns the entries, after reading a changed file.
func (k *keys) current() []KeytabEntry {
	k.mu.Lock()
	defer k.mu.Unlock()
	info, err := os.Stat(k.path)
	if err == nil && !sameFile(info, k.info) {
		_ = k.read() // an unreadable file leaves the old keys in use
	}
	return k.entries
}

// reread returns the entries after a failed look-up, and whether the file was read again.
func (k *keys) reread() ([]KeytabEntry, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if time.Since(k.readAt) < rereadInterval {
		return nil, false
	}
	err := k.read()
	return k.entries, err == nil
}
