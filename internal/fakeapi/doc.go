// Package fakeapi is a small API server for the unit tests of controllers: objects of every
// kind of client-go's scheme in memory, behind client.Client and informer.Source.
//
// It is no mock. Writes follow the API's rules: resourceVersion conflicts, uid preconditions,
// generateName, generation, status and other subresources kept apart from the main resource, the
// three patch types, finalizers, graceful deletion of pods. It does not default, validate
// or authorize. Names, uids and times follow from the order of the writes and the clock alone, so
// that a test in a synctest bubble sees the same objects in every run.
//
//	api := fakeapi.New(fakeapi.Options{})
//	pods := informer.New(fakeapi.Source[*corev1.Pod](api, fakeapi.Pods), informer.Options{})
//
// Errors are those of k8s.io/apimachinery/pkg/api/errors. A Server is safe for concurrent use.
package fakeapi
