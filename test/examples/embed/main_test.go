// The program in docs/tutorial-embed.md, run, and the page's code beside it.

package main

import (
	"bytes"
	"os"
	"regexp"
	"testing"
)

func Example() {
	main()
	// Output:
	// greeting: hello
	// greeting: HELLO
}

// TestTutorialIsTheProgram: each block of Go on the page is part of the program, byte by byte.
func TestTutorialIsTheProgram(t *testing.T) {
	page, err := os.ReadFile("../../../docs/tutorial-embed.md")
	if err != nil {
		t.Fatal(err)
	}
	program, err := os.ReadFile("main.go")
	if err != nil {
		t.Fatal(err)
	}
	blocks := regexp.MustCompile("(?ms)^```go\n(.*?)^```$").FindAllSubmatch(page, -1)
	if len(blocks) < 3 {
		t.Fatalf("the page has %d blocks of Go, want at least 3", len(blocks))
	}
	for _, b := range blocks {
		if !bytes.Contains(program, b[1]) {
			t.Errorf("not in main.go:\n%s", b[1])
		}
	}
}
