package codec_test

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/registry/codec"
)

// An object is encoded for storage and decoded again.
func Example() {
	gvk := corev1.SchemeGroupVersion.WithKind("ConfigMap")
	data, err := codec.Stored(gvk, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "settings"}})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(codec.IsProtobuf(data))
	back := &corev1.ConfigMap{}
	named, err := codec.Decode(data, back)
	fmt.Println(named, back.Name, err)
	// Output:
	// true
	// /v1, Kind=ConfigMap settings <nil>
}
