package expectations_test

import (
	"fmt"
	"time"

	"github.com/keelson-dev/keelson/controllers"
	"github.com/keelson-dev/keelson/controllers/expectations"
)

// A controller that has created two pods does not look at how many there are before its cache shows both.
func ExampleDependents() {
	set, pods := controllers.Key{Namespace: "default", Name: "web"}, expectations.NewDependents()
	pods.Creations(set, 2)
	pods.Created(set) // the cache shows the first
	fmt.Println("wait:", pods.Wait(set, time.Now()) > 0)
	pods.Created(set) // and the second
	fmt.Println("wait:", pods.Wait(set, time.Now()) > 0)
	// Output:
	// wait: true
	// wait: false
}
