package initializers_test

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/admission/initializers"
)

// An initializer refuses secrets that are too short.
func Example() {
	initialize := func(s *corev1.Secret) error {
		const me = "secrets.example.com"
		if initializers.Next(s) != me {
			return nil // not yet, or not any more
		}
		if len(s.Data["password"]) < 8 {
			return initializers.Reject(s, me, metav1.Status{Reason: metav1.StatusReasonInvalid, Code: 422, Message: "the password is too short"})
		}
		return initializers.Done(s, me)
	}
	for _, password := range []string{"1234", "correct horse battery staple"} {
		s := &corev1.Secret{Data: map[string][]byte{"password": []byte(password)}}
		s.Annotations = map[string]string{initializers.Annotation: `{"pending":[{"name":"secrets.example.com"}]}`}
		if err := initialize(s); err != nil {
			fmt.Println(err)
		}
		state, _ := initializers.Of(s)
		if state == nil {
			fmt.Println("initialized")
		} else {
			fmt.Println(state.Result.Message)
		}
	}
	// Output:
	// the password is too short
	// initialized
}
