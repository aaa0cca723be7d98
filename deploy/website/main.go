// The website command: builds static pages with search from the repository's documents.

// Command website writes the repository's documents as a web site to a directory.
package main

import (
	"fmt"
	"os"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: website DIR")
		os.Exit(1)
	}
	pages, err := build("../..", os.Args[1])
	if err != nil {
		fmt.Fprintln(os.Stderr, "website:", err)
		os.Exit(1)
	}
	fmt.Printf("%d pages in %s: open index.html\n", pages, os.Args[1])
}
