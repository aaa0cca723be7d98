// JSON keys that commands print, compared with the reference.

// Package jsontest compares the JSON output of commands with docs/reference/json.md.
package jsontest

import (
	"encoding/json"
	"errors"
	"io"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// A node is a key of the reference. Its parts are the keys of an object; the part "[]" stands for
// array elements, and "NAME" for any key.
type node struct {
	parts map[string]*node
	same  string // another key with the same parts, if the reference lists them only there
}

// at returns the node of a key such as "stats.calls.NAME". With make it makes a missing node;
// without make it returns nil.
func (n *node) at(key string, make bool) *node {
	for part := range strings.SplitSeq(strings.ReplaceAll(key, "[]", ".[]"), ".") {
		next := n.parts[part]
		if next == nil {
			if !make {
				return nil
			}
			next = &node{parts: map[string]*node{}}
			n.parts[part] = next
		}
		n = next
	}
	return n
}

var (
	heading = regexp.MustCompile(`(?m)^## (.*)\n`)
	sameAll = regexp.MustCompile(`The same keys as of \[(.*)\]`)
	row     = regexp.MustCompile("(?m)^\\| `([^`]*)` \\|.*?(?:keys as in `([^`]*)` \\|)?$")
)

// sections returns the commands in the page json.md, each with its keys.
func sections(page string) map[string]*node {
	all := map[string]*node{}
	places := heading.FindAllStringSubmatchIndex(page, -1)
	for i, at := range places {
		end := len(page)
		if i+1 < len(places) {
			end = places[i+1][0]
		}
		name, text := page[at[2]:at[3]], page[at[1]:end]
		root := &node{parts: map[string]*node{}}
		if m := sameAll.FindStringSubmatch(text); m != nil {
			root = all[m[1]]
		}
		for _, m := range row.FindAllStringSubmatch(text, -1) {
			root.at(m[1], true).same = m[2]
		}
		if strings.Contains(text, "An array of objects") {
			root = &node{parts: map[string]*node{"[]": root}}
		}
		all[name] = root
	}
	return all
}

// missing lists the keys of a value that n lacks. root has all keys.
func missing(v any, n, root *node, prefix string) (keys []string) {
	if n.same != "" {
		n = root.at(n.same, false)
	}
	switch v := v.(type) {
	case []any:
		element := n.parts["[]"]
		if element == nil {
			return []string{prefix + "[]"}
		}
		for _, e := range v {
			keys = append(keys, missing(e, element, root, prefix+"[]")...)
		}
	case map[string]any:
		for k, e := range v {
			next := n.parts[k]
			if next == nil {
				next = n.parts["NAME"]
			}
			if next == nil {
				keys = append(keys, prefix+"."+k)
				continue
			}
			keys = append(keys, missing(e, next, root, prefix+"."+k)...)
		}
	}
	slices.Sort(keys)
	return slices.Compact(keys)
}

// Documented checks that the reference lists each key in a command's output of one or more values.
// dir is the document folder, and args are the command line.
func Documented(t testing.TB, dir, program string, args []string, printed string) {
	t.Helper()
	page, err := os.ReadFile(dir + "/reference/json.md")
	if err != nil {
		t.Fatal(err)
	}
	all, name := sections(string(page)), ""
	for s := range all {
		if len(s) > len(name) && isOf(s, append([]string{program}, args...)) {
			name = s
		}
	}
	root := all[name]
	if root == nil {
		t.Errorf("docs/reference/json.md has no section of %s %s", program, strings.Join(args, " "))
		return
	}
	keys := root
	if list := root.parts["[]"]; list != nil && len(root.parts) == 1 {
		keys = list
	}
	for d := json.NewDecoder(strings.NewReader(printed)); ; {
		var v any
		err := d.Decode(&v)
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			t.Errorf("%s %s printed no JSON: %v", program, strings.Join(args, " "), err)
			return
		}
		if lost := missing(v, root, keys, ""); len(lost) > 0 {
			t.Errorf("docs/reference/json.md, %s: lacks %q", name, lost)
		}
	}
}

// isOf reports whether a section describes a command line: the line begins with the section's
// commands and has its flags.
func isOf(section string, line []string) bool {
	for i, word := range strings.Fields(section) {
		if strings.HasPrefix(word, "-") && !slices.Contains(line, word) || !strings.HasPrefix(word, "-") && (i >= len(line) || line[i] != word) {
			return false
		}
	}
	return true
}

// Fill sets everything that v points to to nonzero values, so that no key is omitted.
func Fill(v any) { fill(reflect.ValueOf(v).Elem()) }

func fill(v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem())
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(v.Index(0))
	case reflect.Array:
		for i := range v.Len() {
			fill(v.Index(i))
		}
	case reflect.Map:
		key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		fill(key)
		fill(value)
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(key, value)
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[time.Time]() {
			v.Set(reflect.ValueOf(time.Unix(1e9, 0)))
			return
		}
		for i := range v.NumField() {
			if v.Field(i).CanSet() {
				fill(v.Field(i))
			}
		}
	case reflect.String:
		v.SetString("x")
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		v.SetInt(1)
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		v.SetUint(1)
	case reflect.Float32, reflect.Float64:
		v.SetFloat(1)
	}
}
