package main

import "context"

func Example() {
	if err := run(context.Background(), nil); err != nil {
		panic(err)
	}
	// Output:
	// "correct horse battery staple": created
	// "1234": data[password], Invalid value: "": must have at least 8 bytes
	// pod plain: app
	// pod meshed: proxy app
}
