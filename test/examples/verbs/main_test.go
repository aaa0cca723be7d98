// The example of the verbs, run.

package main

func Example() {
	main()
	// Output:
	// "hello, world" is here, our STag was invalidated: true
}
