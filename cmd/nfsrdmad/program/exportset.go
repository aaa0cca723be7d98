// The exports from the command line and from the exports file, and the reload of the file.

package program

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/nfsrdma/nfsrdma/nfsserver"
	"github.com/nfsrdma/nfsrdma/nfsserver/exports"
	"github.com/nfsrdma/nfsrdma/nfsserver/memfs"
	"github.com/nfsrdma/nfsrdma/nfsserver/osfs"
	"github.com/sirupsen/logrus"
)

// An exportSet has the served exports and how they were opened.
type exportSet struct {
	// Set once.
	o    *options
	file string // the exports file; "": none

	fixed []nfsserver.Export // exports from the command line, without FS and Open; set by begin

	history history

	memory atomic.Pointer[exports.Export] // the file's rules for --memory; nil: none

	mu sync.Mutex // guards all below; held throughout a reload
	// by path: the file's exports, with the options their directories were opened with
	whole map[string]exports.Whole
	list  []nfsserver.Export // all served exports, without FS and Open
	from  map[string]source  // sources by export name
}

// newExportSet chooses the exports file: the one given, or the default one if it exists and the
// command line has no exports.
func newExportSet(o *options, args []string) *exportSet {
	set := &exportSet{o: o, file: o.exports}
	if _, err := os.Stat(defaultExports); o.kind == nil && o.exports == "" && len(args) == 0 && o.memory == "" && err == nil {
		set.file = defaultExports
	}
	return set
}

// errNoFile means that there is no file to reload.
var errNoFile = errors.New("nothing to reload: the server was started without --exports")

// begin opens all exports.
func (s *exportSet) begin(args []string) ([]nfsserver.Export, error) {
	list, err := sources(s.o, args)
	if err != nil {
		return nil, err
	}
	n := len(list)
	fixed, err := s.fixedNames(list)
	if err != nil {
		return nil, err
	}
	if s.file != "" && s.o.kind == nil {
		f, memory, err := s.read()
		if err != nil {
			return nil, err
		}
		s.memory.Store(memory)
		if err := s.checkDisjoint(fixed, f); err != nil {
			return nil, err
		}
		if !osfs.ActsAsCallers() {
			logrus.Warnf("%s: its squash options, anonuid and anongid have no effect: without the right to become other users the server acts as the one who runs it", s.file)
		}
		s.whole = map[string]exports.Whole{}
		for _, x := range f.Exports {
			list = append(list, s.fileSource(x))
			s.whole[x.Path] = x.Whole
		}
	}
	all, err := openExports(list)
	if err != nil && !slices.ContainsFunc(all, func(e nfsserver.Export) bool { return e.FS != nil }) && s.file == "" && s.o.memory == "" {
		return nil, err // the command line is wrong; a file's exports may all open later
	}
	if s.file != "" && s.o.kind != nil {
		if err := s.applyRules(all); err != nil {
			closeAll(all)
			return nil, err
		}
		n = 0
	}
	if s.o.memory != "" {
		all = append(all[:n:n], append([]nfsserver.Export{{Name: s.o.memory, FS: memfs.New(memfs.Options{Mode: 0o1777}), Rules: s.memory.Load()}}, all[n:]...)...)
		n++
	}
	if s.file != "" {
		s.history.note(nil)
	}
	if len(all) == 0 && s.o.kind != nil {
		return nil, errors.New("nothing to export: name a volume")
	}
	if len(all) == 0 {
		return nil, errors.New("nothing to export: name a directory or an exports file (--exports), or say --memory")
	}
	for i := range all {
		all[i].ReadOnly = s.o.readOnly
	}
	s.from = map[string]source{}
	for _, src := range list {
		s.from[src.name] = src
	}
	s.recordServed(all)
	for _, e := range all[:n] {
		s.fixed = append(s.fixed, nfsserver.Export{Name: e.Name, ReadOnly: e.ReadOnly})
	}
	return all, nil
}

// fixedNames returns the names of the command line's exports. A duplicate is an error.
func (s *exportSet) fixedNames(list []source) (names []string, err error) {
	for _, src := range list {
		names = append(names, src.name)
	}
	if s.o.memory != "" {
		names = append(names, s.o.memory)
	}
	for i, name := range names {
		if slices.Contains(names[:i], name) {
			return nil, fmt.Errorf("the command line exports %s twice: leave one out, or give it another name (=/name)", name)
		}
	}
	return names, nil
}

// read reads the exports file and separates the rules of --memory from the file.
func (s *exportSet) read() (f *exports.File, memory *exports.Export, err error) {
	if f, err = readExports(s.file); err != nil {
		return nil, nil, err
	}
	if err := s.o.security.check(s.file, f); err != nil {
		return nil, nil, err
	}
	s.o.security.warn(s.file, f)
	for i, x := range f.Exports {
		if x.Path != s.o.memory {
			continue
		}
		if err := memoryMistake(s.file, x); err != nil {
			return nil, nil, err
		}
		f.Exports = slices.Delete(f.Exports, i, i+1)
		return f, x, nil
	}
	return f, nil, nil
}

// memoryMistake returns an error if the export of --memory has options for opening a directory.
func memoryMistake(file string, x *exports.Export) error {
	if words := wholeOptions(&x.Whole); len(words) > 0 {
		return x.Clients[0].Mistake(file, fmt.Sprintf("%s is for directories, and %s is of memory (--memory): leave it out", words[0], x.Path))
	}
	return nil
}

// fromFile reports whether an export's rules come from the file, rather than from the flags about
// callers.
func (s *exportSet) fromFile(name string) bool {
	return !slices.ContainsFunc(s.fixed, func(e nfsserver.Export) bool { return e.Name == name }) || s.memory.Load() != nil && name == s.o.memory
}

// open reports whether an export exists to which the flags about callers apply.
func (s *exportSet) open() bool {
	return slices.ContainsFunc(s.fixed, func(e nfsserver.Export) bool { return !s.fromFile(e.Name) })
}

// checkDisjoint returns an error if the file and the command line name one export, because the
// rules from one of the two would be ignored.
func (s *exportSet) checkDisjoint(fixed []string, f *exports.File) error {
	for _, x := range f.Exports {
		if slices.Contains(fixed, x.Path) {
			return fmt.Errorf("%s:%d: the command line exports %s, too: name it in one of the two alone", s.file, x.Line, x.Path)
		}
	}
	return nil
}

// fileSource returns the source for an export in the file.
func (s *exportSet) fileSource(x *exports.Export) source {
	how := osfs.Options{CrossMounts: x.Whole.CrossMounts, SubtreeCheck: x.Whole.SubtreeCheck}
	if x.Whole.HasFSID {
		how.FSID = &x.Whole.FSID
	}
	src := dirSource(x.Path, x.Path, how)
	src.rules = x
	open := src.open
	src.open = func() (nfsserver.FS, error) {
		tree, err := open()
		if err != nil {
			return nil, fmt.Errorf("%s:%d: %w", s.file, x.Line, err)
		}
		return tree, nil
	}
	return src
}

// reload applies the exports file again, in one step; an error changes nothing. Exports with the
// same opening options stay open.
func (s *exportSet) reload(v *nfsserver.Service) (n int, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.file == "" {
		return 0, errNoFile
	}
	f, memory, err := s.read()
	if err != nil {
		return 0, err
	}
	var fixed []string
	for _, e := range s.fixed {
		fixed = append(fixed, e.Name)
	}
	if err := s.checkDisjoint(fixed, f); err != nil {
		return 0, err
	}
	whole := map[string]exports.Whole{}
	list := slices.Clone(s.fixed)
	for i := range list {
		if list[i].Name == s.o.memory {
			list[i].Rules = memory
		}
	}
	var added []source
	var again []string
	mounted, err := osfs.ReadMounts()
	if err != nil {
		return 0, err
	}
	if s.o.kind != nil { // the volumes come from the command line
		if _, err := rulesOf(s.file, f, slices.Collect(maps.Keys(s.whole))); err != nil {
			return 0, err
		}
	}
	for _, x := range f.Exports {
		whole[x.Path] = x.Whole
		if old, ok := s.whole[x.Path]; ok && (s.o.kind != nil || sameOpen(old, x.Whole)) && s.covering(x.Path, mounted) == osfs.InPlace {
			list = append(list, nfsserver.Export{Name: x.Path, Rules: x, ReadOnly: s.o.readOnly})
		} else {
			added = append(added, s.fileSource(x))
		}
	}
	for i := range list {
		if s.covering(list[i].Name, mounted) == osfs.InPlace || s.fromFile(list[i].Name) {
			continue
		}
		src := s.from[list[i].Name] // unchanged if the reload fails
		added, again = append(added, dirSource(src.at, src.name, src.how)), append(again, src.name)
	}
	list = slices.DeleteFunc(list, func(e nfsserver.Export) bool { return slices.Contains(again, e.Name) })
	more, err := openExports(added)
	if errors.Is(err, errDescriptors) && hasRemoved(s.list, list) {
		err = nil // Replace releases removed exports' descriptors, and then opens the rest
	}
	if err != nil {
		closeAll(more)
		return 0, err
	}
	for i := range more {
		more[i].ReadOnly = s.o.readOnly
	}
	if err := v.Replace(append(list, more...)); err != nil {
		closeAll(more)
		return 0, fmt.Errorf("%s: %w", s.file, err)
	}
	s.whole = whole
	s.memory.Store(memory)
	for _, src := range added {
		s.from[src.name] = src
	}
	s.recordServed(append(list, more...))
	return len(list) + len(more), nil
}

// hasRemoved reports whether an export in old is missing in list.
func hasRemoved(old, list []nfsserver.Export) bool {
	return slices.ContainsFunc(old, func(o nfsserver.Export) bool {
		return !slices.ContainsFunc(list, func(e nfsserver.Export) bool { return e.Name == o.Name })
	})
}

// sameOpen reports whether two exports are opened with the same options.
func sameOpen(a, b exports.Whole) bool {
	a.NoHide, b.NoHide = false, false // concerns only the parent exports
	return a == b
}
