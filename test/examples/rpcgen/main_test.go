// The example of docs/oncrpcgen.md, run.

package main

func Example() {
	main()
	// Output:
	// STORED 1 100000 true [{zeros [100000]}]
	// STORED 2 200000 true [{zeros [100000 200000]}]
}
