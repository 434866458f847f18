package checkpoint_test

import (
	"fmt"
	"os"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/kubelet/checkpoint"
)

// A pod that was admitted is known to the next kubelet.
func Example() {
	dir, err := os.MkdirTemp("", "checkpoint")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	for range 2 { // before and after a restart
		store, err := checkpoint.New(dir)
		if err != nil {
			fmt.Println(err)
			return
		}
		pods, err := checkpoint.Restore(store)
		if err != nil {
			fmt.Println(err)
			return
		}
		_, admitted := pods.Get("1")
		fmt.Println(admitted)
		if err := pods.Admit(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web", UID: "1"}}); err != nil {
			fmt.Println(err)
			return
		}
	}
	// Output:
	// false
	// true
}
