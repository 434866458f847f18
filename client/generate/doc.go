// Package generate makes the objects that kubectl run, expose and create make, as pure functions
// from a name and options to typed objects:
//
//	d, err := generate.Deployment("web", generate.DeploymentOptions{Images: []string{"nginx"}})
//
// Options are kubectl's flags of the same name: numbers are numbers, a repeatable flag is a slice, and a value with a
// syntax of its own ("app=web,tier=front", "80:8080", "deployments.apps/scale") is text in that syntax. The zero value
// of an option is the default of the flag. Objects carry their kind and version, but no namespace: the caller sets one
// if the user gave it.
//
// Nothing is sent: every function is a dry run. [Record] records the command that caused the change.
//
// # Differences from kubectl
//
// [Run] infers the kind from the restart policy, as kubectl did before 1.18; the generator
// "run-pod/v1" makes the Pod that it makes now. Image references and names are checked everywhere
// before a request is sent; kubectl checks the image only in run and leaves names to the server.
// An env file does not take values from the environment unless a function to look them up is given.
//
// # Errors
//
// Every error is about the input, with kubectl's text if it has one. Functions may be called from any goroutine and
// have no state; they read files only if an option names one.
package generate
