// The format of krb5.conf: sections with relations, which nest in braces.

package krb5

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// A profile has the values of krb5.conf by path, "libdefaults/default_realm". Values of equal paths
// are in the order of the files.
type profile map[string][]string

// maxIncludes limits the depth of include directives.
const maxIncludes = 10

// readProfile reads files, at least one of which must exist, and the files that they include.
func readProfile(paths []string) (profile, error) {
	p := profile{}
	var missing error
	found := false
	for _, path := range paths {
		err := p.readFile(path, 0)
		switch {
		case os.IsNotExist(err):
			missing = err
		case err != nil:
			return nil, err
		default:
			found = true
		}
	}
	if !found {
		return nil, missing
	}
	return p, nil
}

func (p profile) readFile(path string, depth int) error {
	if depth > maxIncludes {
		return fmt.Errorf("%s: includes are nested too deep", path)
	}
	b, err := readFile(path)
	if err != nil {
		return err
	}
	return p.parse(path, string(b), depth)
}

// parse adds the relations of a text.
func (p profile) parse(file, text string, depth int) error {
	var at []string // the section, then the names before open braces
	for n, line := range strings.Split(text, "\n") {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' || line[0] == ';' {
			continue
		}
		word, rest, _ := strings.Cut(line, " ")
		rest = strings.TrimSpace(rest)
		key, value, relation := strings.Cut(line, "=")
		key, value = strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(key), "*")), strings.TrimSpace(value)
		var err error
		switch {
		case word == "include" && !relation:
			err = p.readFile(rest, depth+1)
		case word == "includedir" && !relation:
			err = p.readDir(rest, depth+1)
		case word == "module" && !relation: // a library for MIT's programs
		case line[0] == '[':
			name, _, ok := strings.Cut(line[1:], "]")
			if at = []string{name}; !ok {
				err = fmt.Errorf("%s:%d: no ] in %q", file, n+1, line)
			}
		case line[0] == '}' && len(at) > 1:
			at = at[:len(at)-1]
		case relation && len(at) > 0 && value == "{":
			at = append(slices.Clip(at), key)
		case relation && len(at) > 0:
			path := strings.Join(append(slices.Clip(at), key), "/")
			p[path] = append(p[path], unquote(value))
		default:
			err = fmt.Errorf("%s:%d: cannot parse %q", file, n+1, line)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// readDir reads the files in a directory whose names MIT's library accepts: only letters, digits,
// dashes and underscores, or ending in .conf.
func (p profile) readDir(dir string, depth int) error {
	list, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, f := range list {
		plain := strings.Trim(f.Name(), "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_") == ""
		conf := strings.HasSuffix(f.Name(), ".conf") && !strings.HasPrefix(f.Name(), ".")
		if f.IsDir() || !plain && !conf {
			continue
		}
		if err := p.readFile(filepath.Join(dir, f.Name()), depth); err != nil {
			return err
		}
	}
	return nil
}

func unquote(s string) string {
	if len(s) >= 2 && s[0] == '"' && s[len(s)-1] == '"' {
		return s[1 : len(s)-1]
	}
	return s
}

// first returns the first value, or the default.
func (p profile) first(path, otherwise string) string {
	if v := p[path]; len(v) > 0 {
		return v[0]
	}
	return otherwise
}

// yes is first for a boolean.
func (p profile) yes(path string, otherwise bool) bool {
	switch strings.ToLower(p.first(path, "")) {
	case "y", "yes", "true", "t", "1", "on":
		return true
	case "n", "no", "false", "nil", "0", "off":
		return false
	}
	return otherwise
}
