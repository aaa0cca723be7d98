// The documents: the code in them is the code that is compiled, their links lead somewhere.

package test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// documents are what users read, by path from the root.
func documents(t *testing.T) []string {
	t.Helper()
	docs, err := filepath.Glob("../docs/*.md")
	if err != nil || len(docs) == 0 {
		t.Fatalf("%d documents, %v", len(docs), err)
	}
	return append(docs, "../README.md", "../CONTRIBUTING.md", "../SECURITY.md", "linux/README.md")
}

// The program in the README is the example, to the byte; that one is compiled and run.
func TestReadmeProgram(t *testing.T) {
	readme, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	example, err := os.ReadFile("examples/rpc/main.go")
	if err != nil {
		t.Fatal(err)
	}
	blocks := regexp.MustCompile("(?ms)^```go\n(.*?)^```$").FindAllSubmatch(readme, -1)
	if len(blocks) != 1 {
		t.Fatalf("%d blocks of Go in the README, want one", len(blocks))
	}
	if string(blocks[0][1]) != string(example) {
		t.Error("the README's program is not test/examples/rpc/main.go")
	}
}

var link = regexp.MustCompile(`\]\(([^)#:]+)(#[^)]*)?\)`)

func TestLinks(t *testing.T) {
	for _, doc := range documents(t) {
		text, err := os.ReadFile(doc)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range link.FindAllSubmatch(text, -1) {
			if _, err := os.Stat(filepath.Join(filepath.Dir(doc), string(m[1]))); err != nil {
				t.Errorf("%s: %v", strings.TrimPrefix(doc, "../"), err)
			}
		}
	}
}
