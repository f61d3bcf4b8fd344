// Clients of HDFS for a program that is no Java: each connection is a client that asks for one thing after the other.
//
//   W KEY VERSION LENGTH REPLICAS\n + bytes
//                                    the file of the key, made anew for version 1, grows by these; hsync       ok\n
//   R KEY\n                          all that the file has                                         LENGTH\n + bytes
//   B KEY\n                          where the file's one block is             POOL NUMBER ADDRESS,ADDRESS\n, or -\n
//   C\n                              all files that are being written are closed, also those whose writer failed; no
//                                    answer waits for data nodes, so that it is to be asked until it is               ok\n
//
// A file that is not there has length -1; what fails is answered by "no" and the reason.
import java.io.BufferedInputStream;
import java.io.BufferedOutputStream;
import java.io.DataInputStream;
import java.io.FileNotFoundException;
import java.io.IOException;
import java.io.OutputStream;
import java.net.InetSocketAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.StringJoiner;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.hdfs.DistributedFileSystem;
import org.apache.hadoop.hdfs.protocol.DatanodeInfo;
import org.apache.hadoop.hdfs.protocol.LocatedBlock;
import org.apache.hadoop.io.IOUtils;

public class Bridge {
    private static final int BUFFER_BYTES = 4096;
    /** Data nodes keep as much room free for each file that is being written; it is the least that there may be. */
    private static final long BLOCK_BYTES = 1 << 20;

    private final DistributedFileSystem files;
    private final Map<String, FSDataOutputStream> open = new ConcurrentHashMap<>();
    /** Of which is not known that the name node closed them. */
    private final Set<String> unclosed = ConcurrentHashMap.newKeySet();

    private Bridge(DistributedFileSystem files) {
        this.files = files;
    }

    /** ADDRESS PORT. Ends with its process. */
    public static void main(String[] arguments) throws Exception {
        Bridge bridge = new Bridge((DistributedFileSystem) FileSystem.get(new Configuration()));
        try (ServerSocket server = new ServerSocket()) {
            server.bind(new InetSocketAddress(arguments[0], Integer.parseInt(arguments[1])));
            while (true) {
                Socket socket = server.accept();
                socket.setTcpNoDelay(true);
                Thread thread = new Thread(() -> bridge.serve(socket));
                thread.setDaemon(true);
                thread.start();
            }
        }
    }

    private void serve(Socket socket) {
        try (socket;
             DataInputStream in = new DataInputStream(new BufferedInputStream(socket.getInputStream()));
             OutputStream out = new BufferedOutputStream(socket.getOutputStream())) {
            for (String line = line(in); line != null; line = line(in)) {
                String[] words = line.split(" ");
                byte[] bytes = new byte[words[0].equals("W") ? Integer.parseInt(words[3]) : 0];
                in.readFully(bytes);
                answer(words, bytes, out);
                out.flush();
            }
        } catch (IOException gone) {
            // Its client went.
        }
    }

    private void answer(String[] words, byte[] bytes, OutputStream out) throws IOException {
        try {
            switch (words[0]) {
                case "W":
                    write(words[1], Integer.parseInt(words[2]), Short.parseShort(words[4]), bytes);
                    say("ok", out);
                    break;
                case "R":
                    byte[] all = read(words[1]);
                    say(Integer.toString(all == null ? -1 : all.length), out);
                    if (all != null) {
                        out.write(all);
                    }
                    break;
                case "B":
                    say(block(words[1]), out);
                    break;
                default:
                    closeAll();
                    say("ok", out);
            }
        } catch (IOException failed) {
            say("no " + String.valueOf(failed.getMessage()).replace('\n', ' '), out);
        }
    }

    private void write(String key, int version, short replicas, byte[] bytes) throws IOException {
        FSDataOutputStream stream = null;
        try {
            stream = version == 1
                ? files.create(path(key), true, BUFFER_BYTES, replicas, BLOCK_BYTES)
                : open.get(key);
            if (stream == null) {
                throw new IOException(key + " is not being written");
            }
            open.put(key, stream);
            stream.write(bytes);
            stream.hsync();
        } catch (IOException failed) {
            // Whether the bytes are there is not known, so nothing may follow them.
            unclosed.add(key);
            open.remove(key);
            IOUtils.closeStream(stream);
            throw failed;
        }
    }

    /** A file has one block, as long as it is shorter than that. */
    private String block(String key) throws IOException {
        List<LocatedBlock> blocks;
        try {
            blocks = files.getClient().getLocatedBlocks(path(key).toString(), 0).getLocatedBlocks();
        } catch (FileNotFoundException missing) {
            return "-";
        }
        if (blocks.isEmpty()) {
            return "-";
        }
        if (blocks.size() > 1) {
            throw new IOException(key + " has several blocks");
        }
        StringJoiner nodes = new StringJoiner(",");
        for (DatanodeInfo node : blocks.get(0).getLocations()) {
            nodes.add(node.getIpAddr());
        }
        var block = blocks.get(0).getBlock();
        return block.getBlockPoolId() + " " + block.getBlockId() + " " + nodes;
    }

    private byte[] read(String key) throws IOException {
        try (var in = files.open(path(key))) {
            return in.readAllBytes();
        } catch (FileNotFoundException missing) {
            return null;
        }
    }

    /** What its writer cannot close, since it lost its data nodes, the name node closes at what all replicas have. */
    private void closeAll() throws IOException {
        for (String key : open.keySet()) {
            FSDataOutputStream stream = open.remove(key);
            unclosed.add(key);
            IOUtils.closeStream(stream);
        }
        for (String key : unclosed) {
            if (isClosed(key)) {
                unclosed.remove(key);
            }
        }
        if (!unclosed.isEmpty()) {
            throw new IOException(unclosed.size() + " files are not closed yet");
        }
    }

    /** Has it closed in any case. */
    private boolean isClosed(String key) throws IOException {
        try {
            return files.recoverLease(path(key));
        } catch (FileNotFoundException missing) {
            return true;
        }
    }

    private static Path path(String key) {
        return new Path("/keys/" + key);
    }

    private static void say(String line, OutputStream out) throws IOException {
        out.write((line + "\n").getBytes(StandardCharsets.UTF_8));
    }

    /** The next line, or null at the end. */
    private static String line(DataInputStream in) throws IOException {
        StringBuilder line = new StringBuilder();
        for (int letter = in.read(); letter != '\n'; letter = in.read()) {
            if (letter < 0) {
                return null;
            }
            line.append((char) letter);
        }
        return line.toString();
    }
}
